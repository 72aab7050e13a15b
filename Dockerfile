# rubricd: two stages, no build tools, no shell and no package manager in the result. For amd64 and arm64.
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg REVISION="$(git rev-parse HEAD)" -t rubricd .
# Both stages are the same Debian release, hence the same /usr/bin/python3. Publishing builds pin both by digest:
#   --build-arg BUILD_IMAGE=docker.io/library/debian@sha256:… --build-arg RUNTIME_IMAGE=gcr.io/distroless/python3-debian13@sha256:…
ARG BUILD_IMAGE=docker.io/library/debian:trixie-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/python3-debian13:nonroot

FROM ${BUILD_IMAGE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3-venv \
 && rm -rf /var/lib/apt/lists/*
# A fixed time makes the same sources give the same wheel; the image's own timestamps: see docs/deployment.md.
ENV SOURCE_DATE_EPOCH=1700000000 PYTHONHASHSEED=0 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python3 -m venv tools && python3 -m venv --without-pip /opt/rubricd

# The locked versions, each checked by its hash; of constraints.txt only what the program and its build need.
COPY deploy/image/lock.py pyproject.toml constraints.txt ./
RUN tools/bin/python lock.py runtime > runtime.txt && tools/bin/python lock.py build > build.txt \
 && tools/bin/pip install --quiet --require-hashes --no-deps --only-binary :all: -r build.txt \
 && tools/bin/pip --python /opt/rubricd/bin/python install --quiet --require-hashes --no-deps --only-binary :all: --no-compile -r runtime.txt

COPY README.md LICENSE CHANGELOG.md ./
COPY monitor monitor
COPY collectors collectors
COPY config config
# Byte code that is never checked against its source: the root file system is read-only, and start-up stays short. Forced: what pip
# imported on the way has byte code with a time in it already, which would make each image another one.
RUN tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . \
 && tools/bin/pip --python /opt/rubricd/bin/python install --quiet --no-deps --no-index --no-compile dist/*.whl \
 && rm -f /opt/rubricd/bin/[Aa]ctivate* \
 && find /opt/rubricd -name '*.pyi' -delete \
 && /opt/rubricd/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash /opt/rubricd/lib \
 && mkdir state

FROM ${RUNTIME_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rubricd" \
      org.opencontainers.image.description="Continuous monitor for production LLM agents: OTLP spans in, rubric pass rates out as Prometheus metrics." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="gcr.io/distroless/python3-debian13:nonroot"
COPY --from=build /opt/rubricd /opt/rubricd
COPY --from=build --chown=65532:65532 /build/state /var/lib/rubricd
COPY deploy/image/rubricd.yaml /etc/rubricd/rubricd.yaml
ENV PATH=/opt/rubricd/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RUBRICD_CONFIG=/etc/rubricd/rubricd.yaml
WORKDIR /var/lib/rubricd
VOLUME ["/var/lib/rubricd"]
USER 65532:65532
EXPOSE 4317 4318 8464
STOPSIGNAL SIGTERM
# Of this process alone; an orchestrator asks /readyz besides. RUBRICD_SERVER where the port is not the default.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["/opt/rubricd/bin/python", "-c", "import os, urllib.request as u; u.urlopen(os.environ.get('RUBRICD_SERVER', 'http://127.0.0.1:8464') + '/healthz', timeout=4)"]
ENTRYPOINT ["/opt/rubricd/bin/rubricd"]
CMD ["run"]

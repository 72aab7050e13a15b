"""The JSON Schema of the chart's values: strict on every object, and `config` by the daemon's own schema.

A wrong key or value is so refused by `helm install` already. Draft 7, which every Helm 3 and 4 understands.
"""

from __future__ import annotations

import copy
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
OPTIONAL_NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"}
KEY: Schema = {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
COUNT: Schema = {"type": "integer", "minimum": 0}
QUANTITY: Schema = {"type": ["string", "number"], "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"}
DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
FROM_ENVIRONMENT: Schema = {"type": "string", "pattern": "^\\$\\{env:[^}]+\\}$"}


def section(required: tuple[str, ...] = (), **keys: Schema) -> Schema:
    """An object of these keys and no others."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": keys}
    return found | {"required": list(required)} if required else found


def listed(item: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": item}


def mapped(value: Schema, key: str = "^.+$") -> Schema:
    """Names that people choose, to such values."""
    return {"type": "object", "additionalProperties": False, "patternProperties": {key: value}}


def one_of(*values: Any) -> Schema:
    """One of these."""
    return {"enum": list(values)}


STRINGS = mapped(TEXT)
LABEL_SELECTOR = section(
    matchLabels=STRINGS,
    matchExpressions=listed(section(("key", "operator"), key=TEXT, operator=TEXT, values=listed(TEXT))),
)
KEY_OF = section(("name", "key"), name=NAME, key=KEY, optional=FLAG)
NAMED = section(("name",), name=NAME, optional=FLAG)
ITEMS = listed(section(("key", "path"), key=KEY, path=TEXT, mode=COUNT))
FIELD = section(("fieldPath",), fieldPath=TEXT, apiVersion=TEXT)
RESOURCE_FIELD = section(("resource",), resource=TEXT, containerName=TEXT, divisor=QUANTITY)
RESOURCES = mapped(QUANTITY, "^[a-z0-9./-]+$")
PEER = section(
    podSelector=LABEL_SELECTOR,
    namespaceSelector=LABEL_SELECTOR,
    ipBlock=section(("cidr",), **{"cidr": TEXT, "except": listed(TEXT)}),
)
POLICY_PORT = section(port={"type": ["integer", "string"]}, endPort=PORT, protocol=one_of("TCP", "UDP", "SCTP"))
TERM = section(
    matchExpressions=listed(section(("key", "operator"), key=TEXT, operator=TEXT, values=listed(TEXT))),
    matchFields=listed(section(("key", "operator"), key=TEXT, operator=TEXT, values=listed(TEXT))),
)
POD_TERM = section(
    ("topologyKey",),
    topologyKey=TEXT, labelSelector=LABEL_SELECTOR, namespaceSelector=LABEL_SELECTOR, namespaces=listed(TEXT),
    matchLabelKeys=listed(TEXT), mismatchLabelKeys=listed(TEXT),
)  # fmt: skip
POD_AFFINITY = section(
    requiredDuringSchedulingIgnoredDuringExecution=listed(POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=listed(
        section(("weight", "podAffinityTerm"), weight=COUNT, podAffinityTerm=POD_TERM)
    ),
)
AFFINITY = section(
    nodeAffinity=section(
        requiredDuringSchedulingIgnoredDuringExecution=section(("nodeSelectorTerms",), nodeSelectorTerms=listed(TERM)),
        preferredDuringSchedulingIgnoredDuringExecution=listed(
            section(("weight", "preference"), weight=COUNT, preference=TERM)
        ),
    ),
    podAffinity=POD_AFFINITY,
    podAntiAffinity=POD_AFFINITY,
)
SPREAD = section(
    ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    maxSkew=COUNT, topologyKey=TEXT, whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"), minDomains=COUNT,
    labelSelector=LABEL_SELECTOR, matchLabelKeys=listed(TEXT), nodeAffinityPolicy=TEXT, nodeTaintsPolicy=TEXT,
)  # fmt: skip
TOLERATION = section(key=TEXT, operator=one_of("Exists", "Equal"), value=TEXT, effect=TEXT, tolerationSeconds=COUNT)
ENVIRONMENT = section(
    ("name",),
    name=TEXT,
    value=TEXT,
    valueFrom=section(secretKeyRef=KEY_OF, configMapKeyRef=KEY_OF, fieldRef=FIELD, resourceFieldRef=RESOURCE_FIELD),
)
SECRET = section(("secretName",), secretName=NAME, items=ITEMS, optional=FLAG, defaultMode=COUNT)
CONFIG_MAP = section(("name",), name=NAME, items=ITEMS, optional=FLAG, defaultMode=COUNT)
PROJECTED = section(("name",), name=NAME, items=ITEMS, optional=FLAG)
DOWNWARD = section(
    items=listed(section(("path",), path=TEXT, fieldRef=FIELD, resourceFieldRef=RESOURCE_FIELD, mode=COUNT)),
    defaultMode=COUNT,
)
VOLUME = section(  # the types that the restricted Pod Security Standard allows
    ("name",),
    name=NAME,
    secret=SECRET,
    configMap=CONFIG_MAP,
    emptyDir=section(medium=one_of("", "Memory"), sizeLimit=QUANTITY),
    persistentVolumeClaim=section(("claimName",), claimName=NAME, readOnly=FLAG),
    csi=section(
        ("driver",), driver=TEXT, fsType=TEXT, readOnly=FLAG, volumeAttributes=STRINGS,
        nodePublishSecretRef=section(("name",), name=NAME),
    ),
    downwardAPI=DOWNWARD,
    projected=section(
        ("sources",),
        defaultMode=COUNT,
        sources=listed(
            section(
                secret=PROJECTED,
                configMap=PROJECTED,
                downwardAPI=section(items=DOWNWARD["properties"]["items"]),
                serviceAccountToken=section(("path",), path=TEXT, audience=TEXT, expirationSeconds=COUNT),
            )
        ),
    ),
)  # fmt: skip
MOUNT = section(("name", "mountPath"), name=NAME, mountPath=TEXT, readOnly=FLAG, subPath=TEXT)
SECCOMP = section(("type",), type=one_of("RuntimeDefault", "Localhost", "Unconfined"), localhostProfile=TEXT)
SELINUX = section(level=TEXT, role=TEXT, type=TEXT, user=TEXT)
IDS: dict[str, Schema] = {"runAsNonRoot": FLAG, "runAsUser": COUNT, "runAsGroup": COUNT}
POD_SECURITY = section(
    **IDS,
    fsGroup=COUNT, fsGroupChangePolicy=one_of("OnRootMismatch", "Always"), supplementalGroups=listed(COUNT),
    seccompProfile=SECCOMP, seLinuxOptions=SELINUX,
)  # fmt: skip
SECURITY = section(
    **IDS,
    allowPrivilegeEscalation=FLAG, readOnlyRootFilesystem=FLAG, privileged=one_of(False),
    capabilities=section(drop=listed(TEXT), add=listed(TEXT)), seccompProfile=SECCOMP, seLinuxOptions=SELINUX,
)  # fmt: skip
RULE_TEXTS: dict[str, Schema] = {"for": DURATION, "keep_firing_for": DURATION}
RULE = section(("expr",), record=TEXT, alert=TEXT, expr=TEXT, labels=STRINGS, annotations=STRINGS, **RULE_TEXTS)
GROUP = section(("name", "rules"), name=TEXT, interval=DURATION, limit=COUNT, labels=STRINGS, rules=listed(RULE))
SECRET_OR_MAP = section(secret=KEY_OF, configMap=KEY_OF)
SCRAPE_TLS = section(
    ca=SECRET_OR_MAP, cert=SECRET_OR_MAP, keySecret=KEY_OF, serverName=TEXT, insecureSkipVerify=FLAG,
    caFile=TEXT, certFile=TEXT, keyFile=TEXT,
)  # fmt: skip
TLS = section(existingSecret=OPTIONAL_NAME, clientCA=FLAG)
AUTH = section(existingSecret=OPTIONAL_NAME, key=KEY)


def values_schema(configuration: Schema, rubrics: Schema) -> Schema:
    """The schema of values.yaml; `configuration` and `rubrics` are what `rubricd schema` prints of them."""
    config, definitions = _embedded(configuration)
    inline, kinds = _embedded(rubrics)
    definitions |= kinds
    config["properties"]["rubrics"] = listed(inline)
    definitions["receiver"] = section(
        endpoint={"type": "string", "pattern": ":[0-9]+$"}, max_request_size=TEXT,
        tls=section(("cert_file", "key_file"), cert_file=TEXT, key_file=TEXT, client_ca_file=TEXT),
        auth=section(("bearer_token_file",), bearer_token_file=TEXT),
    )  # fmt: skip
    receivers = {"grpc": {"$ref": "#/definitions/receiver"}, "http": {"$ref": "#/definitions/receiver"}}
    config["properties"]["collectors"] = mapped(section(protocols=section(**receivers)), "^otlp(/.+)?$")
    schema = section(
        **{"global": {"type": "object"}},
        nameOverride=OPTIONAL_NAME, fullnameOverride=OPTIONAL_NAME, commonLabels=STRINGS,
        image=section(
            repository={"type": "string", "minLength": 1}, tag=TEXT,
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy=one_of("IfNotPresent", "Always", "Never"),
        ),
        imagePullSecrets=listed(section(("name",), name=NAME)),
        replicas=one_of(0, 1), config=config, rubrics=mapped(TEXT, "^[a-z0-9][-a-z0-9_.]*\\.yaml$"),
        existingConfigMap=OPTIONAL_NAME,
        judgeKeys=mapped(section(("existingSecret", "key"), existingSecret=NAME, key=KEY), "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$"),
        receivers=section(auth=AUTH, tls=TLS), server=section(auth=AUTH, tls=TLS),
        service=section(
            type=one_of("ClusterIP", "NodePort", "LoadBalancer"), annotations=STRINGS,
            ports=section(grpc=PORT, http=PORT, api=PORT), loadBalancerSourceRanges=listed(TEXT),
        ),
        persistence=section(
            enabled=FLAG, size=QUANTITY, storageClass=TEXT, annotations=STRINGS, existingClaim=OPTIONAL_NAME,
            accessModes=listed(one_of("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")) | {"minItems": 1},
        ),
        resources=section(requests=RESOURCES, limits=RESOURCES),
        terminationGracePeriodSeconds={"type": "integer", "minimum": 45},
        probes=section(readiness=one_of("http", "grpc"), startupFailureThreshold={"type": "integer", "minimum": 1}),
        serviceAccount=section(create=FLAG, name=OPTIONAL_NAME, annotations=STRINGS),
        serviceMonitor=section(
            enabled=FLAG, labels=STRINGS, interval=DURATION, scrapeTimeout=DURATION, sampleLimit=COUNT, tlsConfig=SCRAPE_TLS
        ),
        prometheusRule=section(enabled=FLAG, labels=STRINGS, shipped=FLAG, groups=listed(GROUP)),
        dashboards=section(enabled=FLAG, label=TEXT, labelValue=TEXT, annotations=STRINGS),
        networkPolicy=section(
            enabled=FLAG, telemetryFrom=listed(PEER), serverFrom=listed(PEER), restrictEgress=FLAG,
            egress=listed(section(to=listed(PEER), ports=listed(POLICY_PORT))),
        ),
        podDisruptionBudget=section(
            enabled=FLAG, maxUnavailable={"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]}
        ),
        podSecurityContext=POD_SECURITY, securityContext=SECURITY,
        podLabels=STRINGS, podAnnotations=STRINGS, extraEnv=listed(ENVIRONMENT),
        extraEnvFrom=listed(section(secretRef=NAMED, configMapRef=NAMED, prefix=TEXT)),
        extraVolumes=listed(VOLUME), extraVolumeMounts=listed(MOUNT), nodeSelector=STRINGS,
        tolerations=listed(TOLERATION), affinity=AFFINITY, topologySpreadConstraints=listed(SPREAD),
        priorityClassName=TEXT, runtimeClassName=TEXT,
    )  # fmt: skip
    heading = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart rubricd"}
    return heading | schema | {"definitions": definitions}


def _embedded(configuration: Schema) -> tuple[Schema, dict[str, Schema]]:
    """The configuration's schema without prose, its definitions beside it, and `${env:…}` wherever no text is asked for."""
    tree = _adapted(copy.deepcopy(configuration))
    definitions = tree.pop("$defs", {})
    tree.pop("$schema", None)
    return tree, definitions


def _adapted(node: Any) -> Any:
    if isinstance(node, list):
        return [_adapted(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for key, value in node.items():
        if key in ("properties", "$defs", "patternProperties"):
            found[key] = {name: _adapted(item) for name, item in value.items()}
        elif key == "$ref":
            found[key] = value.replace("#/$defs/", "#/definitions/")
        elif key not in ("title", "description", "default", "examples", "format", "writeOnly"):
            found[key] = _adapted(value)
    asked = found.get("type")
    if asked in ("integer", "number", "boolean") or (asked == "string" and ("pattern" in found or "enum" in found)):
        return {"anyOf": [found, FROM_ENVIRONMENT]}
    return found

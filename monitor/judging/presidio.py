"""Presidio's recognisers, for what our own do not know: national identity numbers, wallets, and with a spaCy model names of people and places.

Only recognisers by pattern and checksum are used unless an installed model is named; nothing asks a network and nothing is downloaded. The only
module that imports presidio_analyzer, which is an extra: `pip install 'rubricd[presidio]'`.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from monitor.settings.privacy import Presidio

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine, EntityRecognizer

NEEDS_MODEL = frozenset({"PERSON", "LOCATION", "ORGANIZATION", "NRP"})
"""Entities that no pattern finds."""

EXTRA = "needs Presidio, which is not installed here: pip install 'rubricd[presidio]'"


class PresidioFault(ValueError):
    """The section cannot be used: the message says which key and what would be right."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An entity in a text: characters [start, end)."""

    entity: str
    start: int
    end: int


Finder = Callable[[str], Sequence[Finding]]
"""What is found in a text, left to right, not overlapping."""


def installed() -> bool:
    """Whether the extra is there."""
    return importlib.util.find_spec("presidio_analyzer") is not None


@lru_cache(maxsize=16)
def finder(settings: Presidio) -> Finder:
    """The recognisers of a section, made once. Raises PresidioFault. Takes seconds the first time: Presidio imports spaCy."""
    if not installed():
        raise PresidioFault(EXTRA)
    by_pattern = _by_pattern(settings.language)
    known = {*by_pattern, *(NEEDS_MODEL if settings.model else ())}
    strange = next((entity for entity in settings.entities if entity not in known), None)
    if strange in NEEDS_MODEL:
        raise PresidioFault(f"entities: {strange} is found by a model only: give `model`, an installed spaCy package")
    if strange is not None:
        raise PresidioFault(f"entities: {strange!r} has no recogniser here; these have: {', '.join(sorted(known))}")
    engine = _engine(settings, by_pattern)
    entities = list(settings.entities)

    def find(text: str) -> Sequence[Finding]:
        found = engine.analyze(text, settings.language, entities=entities, score_threshold=settings.score)
        return _apart([Finding(one.entity_type, one.start, one.end) for one in found])

    return find


def _apart(found: Sequence[Finding]) -> list[Finding]:
    """Left to right, without those that overlap an earlier or longer one."""
    apart: list[Finding] = []
    for one in sorted(found, key=lambda item: (item.start, -item.end, item.entity)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


@lru_cache(maxsize=8)
def _by_pattern(language: str) -> Mapping[str, EntityRecognizer]:
    """The recognisers that need no model and no network, by entity."""
    from presidio_analyzer import PatternRecognizer, predefined_recognizers

    found: dict[str, EntityRecognizer] = {}
    for name, made in inspect.getmembers(predefined_recognizers, inspect.isclass):
        if name == "EmailRecognizer" or not (issubclass(made, PatternRecognizer) or name == "PhoneRecognizer"):
            continue
        recogniser: Any = _in(made, language)
        found.update({entity: recogniser for entity in recogniser.supported_entities if entity not in found})
    return found


def _in(made: Any, language: str) -> EntityRecognizer:
    """A recogniser that works in the language: its patterns know none, its context words are of its own country."""
    recogniser: EntityRecognizer = made()
    recogniser.supported_language = language
    return recogniser


def _engine(settings: Presidio, by_pattern: Mapping[str, EntityRecognizer]) -> AnalyzerEngine:
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.predefined_recognizers import SpacyRecognizer

    wanted: list[EntityRecognizer] = []
    for entity in settings.entities:
        recogniser = by_pattern.get(entity)
        if recogniser is not None and recogniser not in wanted:
            wanted.append(recogniser)
    if NEEDS_MODEL & set(settings.entities):
        wanted.append(SpacyRecognizer(supported_language=settings.language))
    languages = [settings.language]
    registry = RecognizerRegistry(recognizers=wanted, supported_languages=languages)
    return AnalyzerEngine(registry=registry, nlp_engine=_words(settings), supported_languages=languages)


def _words(settings: Presidio) -> Any:
    """What cuts texts into words: the named model, else a blank one, whose words stand for their own lemmas so that context still counts."""
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    if settings.model is not None and not spacy.util.is_package(settings.model):
        raise PresidioFault(f"model: {settings.model} is no spaCy package that is installed here")

    try:
        pipeline: Any = spacy.load(settings.model) if settings.model else spacy.blank(settings.language)
    except (ImportError, OSError, ValueError) as error:
        key, name = ("model", settings.model) if settings.model else ("language", settings.language)
        raise PresidioFault(f"{key}: spaCy cannot load {name!r}: {type(error).__name__}") from error
    pipeline.max_length = 100_000_000

    class Words(SpacyNlpEngine):  # type: ignore[misc]
        def load(self) -> None:
            """Nothing is fetched."""

        def process_text(self, text: str, language: str) -> Any:
            document = pipeline(text)
            if settings.model is None:
                for token in document:
                    token.lemma_ = token.lower_
            return self._doc_to_nlp_artifact(document, language)

    engine: Any = Words(models=[{"lang_code": settings.language, "model_name": settings.model or "blank"}])
    engine.nlp = {settings.language: pipeline}
    return engine

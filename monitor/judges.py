"""The configured judges as running things: made at start, replaced at a reload where they changed, their day's use kept in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from monitor.clock import Clock
from monitor.judging.abilities import AbilityMemory
from monitor.judging.judge import Judge
from monitor.judging.limits import DailyUse
from monitor.settings.privacy import before_judge
from monitor.settings.tree import JudgeSettings, Settings
from monitor.store.protocol import Store
from monitor.telemetry import Telemetry

_USE_KEY = "judge_use:{}"


class Judges:
    """Judges by name. `current` is replaced as a whole by `apply`, never changed."""

    def __init__(self, store: Store, clock: Clock, telemetry: Telemetry, settings: Settings) -> None:
        self._store, self._clock, self._telemetry = store, clock, telemetry
        self._memory = AbilityMemory()  # what servers can do is the same for all judges, and after a reload
        self.current: Mapping[str, Judge] = {
            name: self._made(name, judge, settings) for name, judge in settings.judges.items()
        }
        self._redaction = before_judge(settings.privacy.redact)
        self._retired: set[asyncio.Task[None]] = set()
        self._saved: dict[str, DailyUse] = {}

    def _made(self, name: str, judge: JudgeSettings, settings: Settings) -> Judge:
        from monitor.judging.clients.openai_client import OpenAIClient

        self._telemetry.expect_judge(name, judge.model)
        use = DailyUse.from_json(self._store.state(_USE_KEY.format(name)))
        client = OpenAIClient(judge, self._clock)
        redaction = before_judge(settings.privacy.redact)
        return Judge(name, judge, client, self._clock, self._telemetry, redaction, use, self._memory)

    async def apply(self, settings: Settings) -> None:
        """Take over another configuration: a judge whose section did not change goes on, others are made anew."""
        await asyncio.to_thread(self.save_use)
        redaction = before_judge(settings.privacy.redact)
        kept = {
            name: judge
            for name, judge in self.current.items()
            if settings.judges.get(name) == judge.settings and redaction == self._redaction
        }
        made = {
            name: await asyncio.to_thread(self._made, name, judge, settings)
            for name, judge in settings.judges.items()
            if name not in kept
        }
        for name, judge in self.current.items():
            if name not in kept:
                self._retire(judge)
            if name not in settings.judges:
                self._telemetry.judge_up.remove(name)
        self.current, self._redaction = {**kept, **made}, redaction

    def _retire(self, judge: Judge) -> None:
        """Let a replaced judge end what it was asked, then give up its connections."""

        async def close() -> None:
            try:
                await self._clock.sleep(judge.deadline_seconds)
            finally:
                await judge.close()

        task = asyncio.create_task(close(), name=f"retired judge {judge.name}")
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    def save_use(self) -> None:
        """Keep what each judge has used today, so that a restart does not give it a second budget. Blocks on the store."""
        now = self._clock.now()
        for name, judge in self.current.items():
            use = judge.budget.use(now)
            if self._saved.get(name) != use:
                self._store.set_state(_USE_KEY.format(name), use.as_json())
                self._saved[name] = use

    async def close(self) -> None:
        """Keep the use, and give up connections, those of replaced judges too."""
        await asyncio.to_thread(self.save_use)
        for task in self._retired:
            task.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
        for judge in self.current.values():
            await judge.close()

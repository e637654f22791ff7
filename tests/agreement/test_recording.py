"""An observer can be recorded as a scheduler is: the recording has what reaches its core, and is made again."""

import random
from pathlib import Path

from click.testing import CliRunner

from berth.agreement.observer import Lookahead, Observing
from berth.agreement.settings import build_observer
from berth.cli import main
from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth.core.intake import ObjectEvent
from berth.core.options import CoreOptions
from berth.plugins.registry import in_tree_registry
from berth.recording.recorder import Recorder
from packages.scheduler.tests.agreement.observing import CONFIG


def test_a_recorded_observer_judges_and_its_recording_is_made_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, limit=64 << 20, report=lambda problem: None)
    observer = build_observer(
        load_config(CONFIG),
        in_tree_registry(),
        CoreOptions(rng=random.Random(0)),
        observing=Observing(Lookahead(2)),
        build=recorder.build_core,
    )
    pod = make_pod("web").request(cpu="1")
    events = [make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="9").build() for number in range(3)]
    for now, obj in enumerate([*events, pod.build(), pod.copy().node("n1").build()], start=1):
        observer.handle(ObjectEvent("ADDED", type(obj).__name__, obj), float(now))
        observer.step(float(now))
    observer.finish()
    recorder.close()
    assert observer.agreement.results["agrees"] == 1
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    assert result.exit_code == 0, result.output

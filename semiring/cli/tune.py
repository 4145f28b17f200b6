"""Run ``semiring tune``, which measures the fastest settings."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import UTC, datetime

from semiring.cli.common import Report
from semiring.errors import SemiringError
from semiring.kernels.cpu.codegen.target import host
from semiring.kernels.machines import cpu_machine, machine_file, write_machine_file
from semiring.kernels.machines.tuning import Step, tune
from semiring.thread_counts import get_threads

__all__ = ["run"]


def run(arguments: argparse.Namespace, report: Report) -> int:
    """Measure the fastest settings on this machine, and write them into the user's configuration folder."""
    path, target = machine_file(), host()
    if path is None and not arguments.dry_run:
        raise SemiringError("there is no folder for the settings: set SEMIRING_CONFIG_DIR, or pass --dry-run")
    machine = cpu_machine()
    report("measuring products on this machine, for about a minute; results stay bitwise identical")
    report(f"starting from the settings of {machine}", "")
    threads = arguments.threads or get_threads()

    def print_step(step: Step) -> None:
        what = ", ".join(f"{name} {value}" for name, value in zip(step.names, step.values, strict=True))
        times = f"{1e3 * step.seconds:8.3f} ms against {1e3 * step.best_seconds:8.3f}"
        report(f"  {what:<36} {times}{'  taken' if step.is_accepted else ''}")

    speed = tune(threads, print_step)
    changed = {name: value for name, value in asdict(speed).items() if value != getattr(machine.speed, name)}
    report("", f"faster than before: {changed}" if changed else "no setting was clearly faster than before")
    report.add_facts(machine=machine.name, measured=machine.measurement_day or None, faster=changed)
    if path is not None and not arguments.dry_run:
        write_machine_file(path, target, datetime.now(UTC).date().isoformat(), speed)
        report.add_file(str(path))
    return 0

"""The settings of all built-in components as data, for `--help`, which must not wait seconds for PyTorch.

`python -m purigraph.cli.setting_lists` regenerates them from the components; a test fails if they differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

#: By kind and name: the name, type, default and meaning of every setting.
SettingLists = dict[str, dict[str, list[list[str]]]]

_FILE = "settings.json"


def settings_help(kinds: Sequence[str]) -> str:
    """Return the settings that `--set` can change, one paragraph per component."""
    lists = read()
    paragraphs = [
        f"{name}: " + ", ".join(f"{setting}={default}" for setting, _, default, _ in settings)
        for kind in kinds
        for name, settings in lists[kind].items()
        if settings
    ]
    title = "Settings for --set, with their defaults (`purigraph settings NAME` explains them):"
    return "\n\n".join([title, *paragraphs])


def read() -> SettingLists:
    """Return the lists packaged with the library."""
    lists: SettingLists = json.loads(files("purigraph.cli").joinpath(_FILE).read_text(encoding="utf-8"))
    return lists


def collect(built_in: bool = True) -> SettingLists:
    """Return the lists from the components, optionally including those of other packages."""
    from purigraph import anchors, attacks, classifiers, purifiers, training
    from purigraph.anchors.anchor import AnchorFitSettings
    from purigraph.settings import Settings, describe

    def wanted(registry: Any) -> Iterator[tuple[str, Any]]:
        for name in registry.names():
            item = registry[name]
            origin = getattr(item, "run", item)
            if not built_in or origin.__module__.startswith("purigraph."):
                yield name, item

    def rows(*kinds: type[Settings], leave_out: Sequence[str] = ()) -> list[list[str]]:
        return [list(row) for kind in kinds for row in describe(kind, leave_out=leave_out)]

    sizes = ("in_channels", "out_channels", "classifier_record")  # what is found out, and not set
    return {
        "purifier": {name: rows(item.settings_class, leave_out=sizes) for name, item in wanted(purifiers.registry)},
        "fit": {f"fit {name}": rows(item.fit_settings_class) for name, item in wanted(purifiers.registry)},
        "anchor": {"anchor": rows(anchors.Anchor.settings_class, AnchorFitSettings, leave_out=sizes)},
        "classifier": {name: rows(item.settings_class, leave_out=sizes) for name, item in wanted(classifiers.registry)},
        "regime": {name: rows(item.settings) for name, item in wanted(training.registry)},
        "attack": {name: rows(item.settings_class) for name, item in wanted(attacks.registry)},
    }


def main() -> None:
    """Regenerate the file."""
    text = json.dumps(collect(), indent=1, ensure_ascii=False)
    (Path(__file__).parent / _FILE).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

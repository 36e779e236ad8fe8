"""Components are those of a slow, obvious definition."""

import random

from sslm.schema.values.places import components


def _reached(graph: dict[int, list[int]], start: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        for inner in graph[waiting.pop()]:
            if inner not in found:
                found.add(inner)
                waiting.append(inner)
    return found


def test_nodes_share_a_component_if_each_reaches_the_other() -> None:
    generator = random.Random(7)
    for _ in range(200):
        size = generator.randint(1, 9)
        graph = {
            node: [other for other in range(size) if generator.random() < 0.2]
            for node in range(size)
        }
        found = components(0, graph.__getitem__)
        reached = {node: _reached(graph, node) for node in graph}
        assert set(found) == reached[0]
        for a in found:
            for b in found:
                assert (found[a] == found[b]) == (a in reached[b] and b in reached[a])


def test_a_long_path_needs_no_recursion() -> None:
    found = components(0, lambda node: [node + 1] if node < 50_000 else [])
    assert len(set(found.values())) == 50_001

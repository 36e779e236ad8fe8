"""Names of feature bits, for readers that do not know them."""

from enum import IntFlag


def feature_names(kind: type[IntFlag], bits: int) -> str:
    """Name features, those that have no name yet by their number."""
    names = {feature.value: str(feature.name).lower() for feature in kind}
    found = [index for index in range(32) if bits >> index & 1]
    texts = [names.get(1 << index, f"feature {index}").replace("_", " ") for index in found]
    return ", ".join(texts)

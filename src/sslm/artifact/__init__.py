"""The one place where the records of a model file become domain objects, and back."""

from sslm.artifact.artifact import Artifact
from sslm.artifact.golden import Golden, GoldenRun, TokenPair
from sslm.artifact.provenance import Provenance
from sslm.artifact.reading import read_artifact
from sslm.artifact.writing import ArtifactParts, TensorSpec, TensorStream, write_artifact

__all__ = [
    "Artifact",
    "ArtifactParts",
    "Golden",
    "GoldenRun",
    "Provenance",
    "TensorSpec",
    "TensorStream",
    "TokenPair",
    "read_artifact",
    "write_artifact",
]

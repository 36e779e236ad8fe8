"""The version of this package, which conversion writes into artifacts."""

VERSION = "0.1.0"

"""What can be wrong with canonical JSON in a file of ours."""

from sslm.errors.base import ArtifactError
from sslm.errors.causes import ManyCausesError, causes_of


class CanonicalJsonError(ManyCausesError, ArtifactError):
    """JSON in a file of ours is not in the one spelling, or not what the format has there."""

    causes = causes_of("""
        JSON_SYNTAX: {section} is not JSON: {reason}
        JSON_NOT_CANONICAL: {section} is not canonical JSON from byte {offset_bytes} of the section
            on: keys are sorted and unique, there are no spaces, and escapes are as short as they
            can be
        JSON_UNKNOWN_KEY: {place} has the unknown key {key!r}
        JSON_MISSING_KEY: {place} lacks the key {key!r}
        JSON_TYPE: {place} is {found}, expected {expected}
        JSON_RANGE: {place} is {found}, it must be from {at_least} to {at_most}
        JSON_TEXT: {place} is {found!r}, expected {expected}
    """)

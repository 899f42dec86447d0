"""A check of `make fuzz` beside those of Schemathesis, which loads this file."""
import re

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

# The document has no words for these rules: paths of one folder that clash, lengths in bytes, what an account has, and
# parameters that exclude each other.
NO_WORDS = re.compile(
    r"is the same file as|is also a folder of|is within|bytes of UTF-8|bytes in all|is not a test set of|does not combine with"
)


@schemathesis.check
def right_requests_are_accepted(ctx, response, case):
    """What fits the document is accepted, unless each mistake in it is one that JSON Schema has no words for."""
    if response.status_code == 408 and "id" in response.json():
        return  # It was accepted, and waiting for it took too long.
    try:
        positive_data_acceptance(ctx, response, case)
    except AssertionError:
        fields = response.json().get("fields", []) if response.status_code == 400 else []
        if not fields or not all(NO_WORDS.search(field["message"]) for field in fields):
            raise

"""A client as others write them: strict types, the fields that it knows, polling. It prints a line for each step."""

import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, fields


@dataclass
class Accepted:
    id: str


@dataclass
class Record:
    id: str
    status: str
    verdict: "str | None"
    exit_code: "int | None"
    stdout: "str | None"
    stderr: "str | None"
    cpu_time: "float | None"
    wall_time: "float | None"
    memory_peak: "int | None"


TYPES = {"str": (str,), "int": (int,), "float": (int, float), "None": (type(None),)}


def decode(kind, value):
    """Each field has its type; what the class does not name is ignored."""
    assert isinstance(value, dict), value
    taken = {}
    for field in fields(kind):
        name = field.type if isinstance(field.type, str) else field.type.__name__
        types = tuple(each for part in name.split(" | ") for each in TYPES[part])
        found = value[field.name]
        assert isinstance(found, types) and not isinstance(found, bool), (field.name, found)
        taken[field.name] = found
    return kind(**taken)


def call(path, body=None):
    headers = {"X-API-Key": os.environ["KEY"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["SERVER"] + path, data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


def poll(id):
    while True:
        status, value = call(f"/api/result/{id}")
        assert status == 200, status
        record = decode(Record, value)
        if record.status not in ("pending", "running"):
            return record
        time.sleep(0.05)


status, languages = call("/api/languages")
assert status == 200 and isinstance(languages, list) and all(isinstance(each, str) for each in languages)
print("languages", ",".join(languages))

status, value = call("/api/submit", {"language": "python", "code": "print(6 * 7)"})
assert status == 202, status
record = poll(decode(Accepted, value).id)
print("polled", record.status, record.verdict, record.stdout.strip())

status, value = call("/api/submit?wait=true", {"language": "cpp", "code": "int main() {}"})
assert status == 408, status
record = poll(decode(Accepted, value).id)
print("waited", record.status, record.verdict)

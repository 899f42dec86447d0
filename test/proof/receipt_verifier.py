"""Checks a receipt from the tables in AUDIT.md alone, with nothing but Python's standard library.

    python3 receipt_verifier.py RECEIPT POLICY [RECORD]

Exit 0: all of it is proven. Exit 1: something does not hold; a line says what. Exit 2: a file cannot be used.
It shares no code with Runledger, Ed25519 (RFC 8032) included.
"""
import base64
import binascii
import datetime
import hashlib
import json
import re
import sys


class Unusable(Exception):
    pass


class Wrong(Exception):
    pass


def need(holds, problem):
    if not holds:
        raise Wrong(problem)


def sha256(data):
    return hashlib.sha256(data).digest()


def unbase64(text, size=None):
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise Wrong("not base64") from None
    need(base64.b64encode(data).decode() == text, "not canonical base64")
    need(size is None or len(data) == size, "base64 of a wrong length")
    return data


# Ed25519, RFC 8032, 5.1 ------------------------------------------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if square == 0:
        return None if sign else 0
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * I % P
    if (x * x - square) % P != 0:
        return None
    return P - x if x & 1 != sign else x


def decode_point(data):
    y = int.from_bytes(data, "little")
    sign = y >> 255
    y &= (1 << 255) - 1
    x = recover_x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def equal(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def is_signed(public_key, message, signature):
    if len(signature) != 64:
        return False
    a, r = decode_point(public_key), decode_point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % L
    return equal(times(s, BASE), add(r, times(k, a)))


# JSON ------------------------------------------------------------------------------------------------------------------

def unique(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def no_number(text):
    raise ValueError(text + " is no number")


# For 1,000 levels.
sys.setrecursionlimit(10_000)


def parse_json(text):
    """Numbers are doubles. Raises ValueError, also for a name that is given twice, and for more than 1,000 levels."""
    depth = 0
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        depth += 1 if mark in "[{" else -1 if mark in "]}" else 0
        if depth > 1000:
            raise ValueError("it is nested too deep")
    return json.loads(text, object_pairs_hook=unique, parse_int=float, parse_constant=no_number)


# Keys, notes, policy ---------------------------------------------------------------------------------------------------

NAME = r"[^+\s\ufeff\x00-\x1f\x7f-\x9f]+"


def parse_key(text, kind):
    found = re.fullmatch(rf"({NAME})\+([0-9a-f]{{8}})\+(\S+)", text)
    if not found:
        raise Unusable("not a key: " + text)
    name, identity, encoded = found.groups()
    try:
        data = unbase64(encoded, 33)
    except Wrong as wrong:
        raise Unusable(f"key {name}: {wrong}") from None
    if data[0] != kind or sha256(name.encode() + b"\n" + data)[:4].hex() != identity:
        raise Unusable(f"key {name}: its type or its id is wrong")
    return {"name": name, "id": bytes.fromhex(identity), "kind": kind, "public": data[1:]}


def differ(key, other):
    return key["public"] != other["public"] and (key["name"], key["id"]) != (other["name"], other["id"])


def parse_policy(text):
    logs, witnesses, groups, members, quorum = [], {}, {}, set(), None

    def usable(holds, line):
        if not holds:
            raise Unusable("policy: " + line)

    def define(name, line):
        usable(name != "none" and name not in witnesses and name not in groups, line)

    for line in text.split("\n"):
        usable(not re.search(r"[^\t\x20-\x7e\x80-\U0010ffff]", line), line)
        words = [word for word in re.split(r"[ \t]+", line) if word]
        if not words or words[0].startswith("#"):
            continue
        kind, rest = words[0], words[1:]
        if kind == "log":
            usable(1 <= len(rest) <= 2, line)
            key = parse_key(rest[0], 1)
            usable(all(differ(key, other) for other in logs), line)
            logs.append(key)
        elif kind == "witness":
            usable(2 <= len(rest) <= 3, line)
            define(rest[0], line)
            key = parse_key(rest[1], 4)
            usable(all(differ(key, other) for other in witnesses.values()), line)
            witnesses[rest[0]] = key
        elif kind == "group":
            usable(len(rest) >= 3, line)
            name, least, names = rest[0], rest[1], rest[2:]
            for each in names:
                usable((each in witnesses or each in groups) and each not in members, line)
                members.add(each)
            define(name, line)
            number = {"all": str(len(names)), "any": "1"}.get(least, least)
            usable(re.fullmatch("[1-9][0-9]*", number) and int(number) <= len(names), line)
            groups[name] = (int(number), names)
        elif kind == "quorum":
            usable(len(rest) == 1 and quorum is None, line)
            usable(rest[0] == "none" or rest[0] in witnesses or rest[0] in groups, line)
            quorum = rest[0]
        else:
            usable(False, line)
    usable(quorum is not None, "no quorum")
    return logs, witnesses, groups, quorum


def parse_note(note):
    try:
        need(len(note.encode()) <= 64 * 1024, "the note is too long")
    except UnicodeEncodeError:
        raise Wrong("the note has half a surrogate pair") from None
    need(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", note), "the note has control characters")
    text, empty, rest = note.rpartition("\n\n")
    need(empty and rest.endswith("\n"), "the note has no signatures")
    signatures, lines = [], rest[:-1].split("\n")
    need(len(lines) <= 64, "the note has too many signatures")
    for line in lines:
        found = re.fullmatch(rf"— ({NAME}) (\S+)", line)
        need(found, "a signature line is malformed")
        data = unbase64(found.group(2))
        need(len(data) > 4, "a signature is too short")
        signatures.append((found.group(1), data[:4], data[4:]))
    return text + "\n", signatures


def signed_by(key, text, signatures):
    """True, False if a signature of this key is wrong, None if there is none."""
    own = [data for name, identity, data in signatures if name == key["name"] and identity == key["id"]]
    if not own:
        return None
    for data in own:
        message = text.encode()
        if key["kind"] == 4:
            seconds = int.from_bytes(data[:8], "big")
            if len(data) < 8 or seconds > 2**53 - 1:
                return False
            message = b"cosignature/v1\ntime %d\n" % seconds + message
            data = data[8:]
        if not is_signed(key["public"], message, data):
            return False
    return True


def check_checkpoint(note, policy):
    logs, witnesses, groups, quorum = policy
    text, signatures = parse_note(note)
    lines = text.split("\n")
    need(len(lines) >= 4 and lines[-1] == "" and "" not in lines[:-1], "the checkpoint is malformed")
    origin, size, root = lines[:3]
    need(re.fullmatch("0|[1-9][0-9]{0,15}", size), "the size is malformed")
    root = unbase64(root, 32)
    logs = [key for key in logs if key["name"] == origin]
    need(logs, "the policy does not know this log")
    by_log = [signed_by(key, text, signatures) for key in logs]
    by_witness = {name: signed_by(key, text, signatures) for name, key in witnesses.items()}
    need(False not in by_log and False not in by_witness.values(), "a signature is wrong")
    need(True in by_log, "the log has not signed the checkpoint")
    met = {name for name, signed in by_witness.items() if signed}
    for name, (least, names) in groups.items():
        if sum(each in met for each in names) >= least:
            met.add(name)
    need(quorum == "none" or quorum in met, "too few witnesses have cosigned the checkpoint")
    return int(size), root


# Tree ------------------------------------------------------------------------------------------------------------------

def parse_proof(text):
    head, empty, note = text.partition("\n\n")
    lines = head.split("\n")
    need(empty and lines.pop(0) == "c2sp.org/tlog-proof@v1", "not a proof")
    if lines and lines[0].startswith("extra "):
        lines.pop(0)
    index = re.fullmatch("index (0|[1-9][0-9]{0,15})", lines.pop(0) if lines else "")
    need(index, "the proof has no index")
    return int(index.group(1)), [unbase64(line, 32) for line in lines], note


def root_of(leaf, index, size, hashes):
    """The root over leaf `index`; `hashes` is used up from its end, which is next to the root."""
    if size == 1:
        return leaf
    left = 1
    while left * 2 < size:
        left *= 2
    need(hashes, "the proof is too short")
    sibling = hashes.pop()
    if index < left:
        return sha256(b"\x01" + root_of(leaf, index, left, hashes) + sibling)
    return sha256(b"\x01" + sibling + root_of(leaf, index - left, size - left, hashes))


def check_inclusion(entry, index, size, root, hashes):
    need(0 <= index < size, "the index is beyond the tree")
    left = list(hashes)
    found = root_of(sha256(b"\x00" + entry), index, size, left)
    need(not left, "the proof is too long")
    need(found == root, "the entry is not in the tree")


# Events ----------------------------------------------------------------------------------------------------------------

MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(2000, 1, 1)
FIRST_AT = (datetime.datetime(1970, 1, 1) - EPOCH) // MICROSECOND
LAST_AT = (datetime.datetime.max - EPOCH) // MICROSECOND
COLUMNS = [("stream", 16), ("version", 4), ("type", None), ("schema", 2), ("at", 8), ("generation", 2), ("xid", 8), ("seq", 8), ("facts", None)]


def parse_entry(entry):
    need(entry[:2] == b"\x00\x09", "an entry has nine columns")
    at, event = 2, {}
    for name, size in COLUMNS:
        need(at + 4 <= len(entry), "the entry is too short")
        length = int.from_bytes(entry[at:at + 4], "big", signed=True)
        need(length >= 0 and size in (None, length), "a column has a wrong length")
        at += 4 + length
        need(at <= len(entry), "the entry is too short")
        event[name] = entry[at - length:at]
    need(at == len(entry), "the entry is too long")
    for name in ("version", "schema", "at"):
        event[name] = int.from_bytes(event[name], "big", signed=True)
    need(FIRST_AT <= event["at"] <= LAST_AT, "the time is not of the years 1970 to 9999")
    need(event["facts"][:1] == b"\x01", "the facts have a wrong first byte")
    try:
        event["type"] = event["type"].decode()
        event["facts"] = parse_json(event["facts"][1:].decode())
    except ValueError:
        raise Wrong("the facts are not JSON") from None
    need(isinstance(event["facts"], dict), "the facts are no object")
    return event


ENDED = ("completed", "error", "cancelled")
EVENTS = {
    "submission.accepted": (1, {None: "pending"}),
    "execution.started": (2, {"pending": "running"}),
    "execution.lost": (2, {"running": "pending"}),
    "submission.completed": (2, {"running": "completed"}),
    "submission.failed": (1, {"pending": "error", "running": "error"}),
    "submission.cancelled": (1, {"pending": "cancelled", "running": "cancelled"}),
    "execution.refused": (2, {status: status for status in ("pending", "running") + ENDED}),
    "delivery.requested": (1, {status: status for status in ENDED}),
    "delivery.attempted": (1, {status: status for status in ENDED}),
    "delivery.ended": (1, {status: status for status in ENDED}),
}


def walk(events):
    """The status after all events, and the place of the end in the list."""
    status, end = None, None
    for n, event in enumerate(events):
        need(event["stream"] == events[0]["stream"], "an event of another submission")
        need(event["version"] == n + 1, "a version is missing or out of order")
        newest, after = EVENTS.get(event["type"], (0, {}))
        need(1 <= event["schema"] <= newest, "an unknown event")
        need(status in after, f"{event['type']} cannot come after {status}")
        if after[status] in ENDED and status not in ENDED:
            end = n
        status = after[status]
    need(end is not None, "the submission has not ended")
    return status, end


# Types of facts, DATA.md -------------------------------------------------------------------------------------------------

def integer(value):
    return isinstance(value, float) and abs(value) <= 2**53 - 1 and value.is_integer()


def count(value):
    return integer(value) and value >= 0


def number(value):
    return isinstance(value, float)


def boolean(value):
    return isinstance(value, bool)


def text(value):
    return isinstance(value, str) and value != ""


def signal(value):
    return isinstance(value, str) and value.startswith("SIG")


def digest(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def one_of(words):
    return lambda value: isinstance(value, str) and value in words.split()


def or_null(is_type):
    return lambda value: value is None or is_type(value)


def each(is_type):
    return lambda value: isinstance(value, list) and all(map(is_type, value))


def any_names(is_name, is_type):
    return lambda value: isinstance(value, dict) and all(is_name(name) and is_type(value[name]) for name in value)


def exactly(**types):
    return lambda value: isinstance(value, dict) and value.keys() == types.keys() and all(types[name](value[name]) for name in types)


ENDINGS = "AC WA RE SIG TLE MLE OLE CE"
EXCEEDABLE = one_of("cpu_time wall_time memory output processes")
BYTES = {"bytes": any_names(text, exactly(size=count, sha256=digest))}
USAGE = {"exit_code": or_null(integer), "signal": or_null(signal), "memory_peak_bytes": or_null(count)}
TIMES = {"cpu_time_us": or_null(count), "wall_time_us": or_null(count)}
FLAGS = {"stdout_truncated": boolean, "stderr_truncated": boolean}
COMPILE = exactly(**TIMES, memory_peak_bytes=or_null(count), exit_code=or_null(integer), cached=boolean)
TEST = exactly(**USAGE, **TIMES, **FLAGS, verdict=or_null(one_of(ENDINGS + " IE")), limit_exceeded=or_null(EXCEEDABLE), score=or_null(number))
ENDED_FACTS = {**BYTES, **USAGE, "verdict": one_of(ENDINGS), "compile": or_null(COMPILE)}
# By type and schema: the facts that something is compared with.
FACTS = {
    ("submission.accepted", 1): {**BYTES, "language": text},
    ("submission.completed", 1): {**ENDED_FACTS, "cpu_ms": or_null(count), "wall_ms": or_null(count), "truncated": boolean},
    ("submission.completed", 2): {
        **ENDED_FACTS, **TIMES, **FLAGS,
        "limits": any_names(text, count),
        "limit_exceeded": or_null(EXCEEDABLE),
        "tests": or_null(each(TEST)),
        "score": or_null(number),
    },
    ("submission.failed", 1): {**BYTES, **FLAGS, "tests": or_null(each(TEST))},
    ("delivery.attempted", 1): BYTES,
}


def check_types(event):
    types = FACTS.get((event["type"], event["schema"]), {"bytes": lambda value: False})
    for name, is_type in types.items():
        need(name not in event["facts"] or is_type(event["facts"][name]), f"{name} is of another type")


# Record ----------------------------------------------------------------------------------------------------------------

def over(value, divisor):
    return None if value is None else value / divisor


def time_of(event):
    # Integer division: the time is cut, and not rounded.
    at = EPOCH + datetime.timedelta(milliseconds=event["at"] // 1000)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (at.microsecond // 1000)


TEXTS = ("name", "group", "message", "stdout", "stderr")


def test_of(n, facts):
    names = ("verdict", "exit_code", "signal", "limit_exceeded", "stdout_truncated", "stderr_truncated")
    return {
        **{name: None for name in TEXTS},
        **{name: facts[name] for name in names},
        "n": n,
        "cpu_time": over(facts["cpu_time_us"], 1_000_000),
        "wall_time": over(facts["wall_time_us"], 1_000_000),
        "memory_peak": facts["memory_peak_bytes"],
    }


def objects_in(value, what):
    need(isinstance(value, list) and all(isinstance(item, dict) for item in value), f"{what} is no list of objects")
    return value


def without_texts(tests):
    bare = lambda test: {name: None if name in TEXTS else value for name, value in test.items()}
    return tests and [bare(test) for test in objects_in(tests, "tests")]


def packed(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def packed_tests(tests, read):
    """The bytes of these tests, if their outputs are read in this way. None if all texts of all tests are null."""
    if all(test.get(name) is None for test in tests for name in TEXTS):
        return None
    for test in tests:
        need(all(isinstance(test.get(name), str) for name in TEXTS if name != "message"), "tests: some texts are null")
    encoded = lambda text: base64.b64encode(read(text)).decode()
    return packed([[*(test[name] for name in TEXTS[:3]), encoded(test["stdout"]), encoded(test["stderr"])] for test in tests])


def packed_files(files):
    for file in objects_in(files, "files"):
        need(file.keys() == {"path", "size", "sha256", "content_base64"}, "a file has other fields")
        need(isinstance(file["path"], str) and isinstance(file["content_base64"], str), "a file is malformed")
        data = unbase64(file["content_base64"])
        need(same(file["size"], len(data)) and file["sha256"] == sha256(data).hex(), "a file is not that of its hash")
    return packed([[file["path"], file["content_base64"]] for file in files])


def record_of(events, status, end):
    own = FACTS.get((events[end]["type"], events[end]["schema"]), {})
    said = events[end]["facts"].items() if events[end]["type"] == "submission.completed" else ()
    facts = {name: value for name, value in said if name in own}
    if events[end]["type"] == "submission.failed":
        of_end = events[end]["facts"]
        facts.update(verdict="IE", tests=of_end.get("tests"), **{name: of_end.get(name, False) for name in FLAGS})
    elif events[end]["type"] == "submission.cancelled":
        facts.update(stdout_truncated=False, stderr_truncated=False)
    elif events[end]["schema"] == 1:
        for name in ("cpu", "wall"):
            milliseconds = facts.get(name + "_ms")
            facts[name + "_time_us"] = None if milliseconds is None else milliseconds * 1000
        facts["stdout_truncated"] = facts["stderr_truncated"] = facts.get("truncated")
    compiled, limits = facts.get("compile"), facts.get("limits")
    started = [event for event in events if event["type"] == "execution.started"]
    stream = events[0]["stream"].hex()
    names = ("verdict", "exit_code", "signal", "stdout_truncated", "stderr_truncated", "limit_exceeded")
    return {
        **{name: facts.get(name) for name in names},
        "id": "-".join((stream[:8], stream[8:12], stream[12:16], stream[16:20], stream[20:])),
        "status": status,
        "cpu_time": over(facts.get("cpu_time_us"), 1_000_000),
        "wall_time": over(facts.get("wall_time_us"), 1_000_000),
        "memory_peak": facts.get("memory_peak_bytes"),
        "compile": compiled and {
            "cpu_time": over(compiled["cpu_time_us"], 1_000_000),
            "wall_time": over(compiled["wall_time_us"], 1_000_000),
            "memory_peak": compiled["memory_peak_bytes"],
            "exit_code": compiled["exit_code"],
            "cached": compiled["cached"],
        },
        "limits": None if limits is None else {
            "cpu_time": over(limits.get("cpu_ms"), 1000),
            "wall_time": over(limits.get("wall_ms"), 1000),
            "memory": limits.get("memory_bytes"),
            "stack": limits.get("stack_bytes"),
            "output": limits.get("stdout_bytes"),
            "processes": limits.get("processes"),
        },
        "tests": facts.get("tests") and [test_of(n, test) for n, test in enumerate(facts["tests"], 1)],
        "score": facts.get("score"),
        "progress": None,
        "language": events[0]["facts"].get("language"),
        "created_at": time_of(events[0]),
        "started_at": time_of(started[-1]) if started else None,
        "completed_at": time_of(events[end]),
        "attempts": len(started),
    }


def same(a, b):
    """Equal as JSON values: Python takes True for 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return a == b


def check_record(record, events, status, end, index, size):
    expected = record_of(events, status, end)
    need(record.keys() == expected.keys() | {"stdout", "stderr", "files", "transcript", "proof"}, "the record has other fields")
    for name, value in expected.items():
        need(same(without_texts(record[name]) if name == "tests" else record[name], value), f"{name} is {record[name]!r}, and the log says {value!r}")
    proof = record["proof"]
    if proof is not None:
        need(isinstance(proof, dict) and proof.keys() == {"index", "checkpoint"}, "proof is malformed")
        checkpoint = proof["checkpoint"]
        need(same(proof["index"], index) and type(checkpoint) is float, "proof names another event")
        need(index < checkpoint <= size, "proof names another checkpoint")


# The kinds of bytes of which an event of each type may have the digest.
OUTPUT = ("stdout", "stderr", "tests", "files", "transcript", "team_messages")
KINDS_OF = {
    "submission.accepted": ("code", "stdin", "args", "expected_output", "webhook_url", "judging"),
    "submission.completed": OUTPUT,
    "submission.failed": OUTPUT,
    "delivery.attempted": ("webhook_body",),
}


def check_bytes(kind, data, digests, salts):
    digest = digests.get(kind)
    if digest is None:
        need(data == b"", f"{kind}: the log has none")
        return
    need(len(data) == digest["size"], f"{kind}: its size is wrong")
    need(kind in salts, f"{kind}: there is no opening")
    need(sha256(salts[kind] + data).hex() == digest["sha256"], f"{kind}: its digest is wrong")


def text_bytes(value):
    need(isinstance(value, str), "an output is not text")
    return value.encode("utf-8", "surrogatepass")


def decoded(value):
    need(isinstance(value, str), "an output is not base64")
    return unbase64(value)


def check_outputs(record, read, digests, salts):
    for kind in ("stdout", "stderr"):
        check_bytes(kind, read(record[kind]), digests, salts)
    made = packed_tests(record["tests"] or [], read)
    if made is not None:
        check_bytes("tests", made, digests, salts)
    if record["transcript"] is not None:
        check_bytes("transcript", read(record["transcript"]), digests, salts)


def check(receipt, policy, record):
    listed = receipt["events"]
    proofs = [parse_proof(event["proof"]) for event in listed]
    note = proofs[0][2]
    size, root = check_checkpoint(note, policy)
    events = []
    for event, (index, hashes, its_note) in zip(listed, proofs):
        need(its_note == note, "there are several checkpoints")
        need(same(event["index"], index), "a proof is for another index")
        entry = unbase64(event["entry"])
        check_inclusion(entry, index, size, root, hashes)
        events.append(parse_entry(entry))
    status, end = walk(events)
    for event in events:
        check_types(event)
    digests = {}
    for event in events:
        for kind, digest in event["facts"].get("bytes", {}).items():
            need(kind in KINDS_OF.get(event["type"], ()) and kind not in digests,
                 "a digest of %s in %s" % (kind, event["type"]))
            digests[kind] = digest
    salts = {kind: unbase64(opening["salt"], 16) for kind, opening in receipt["openings"].items()}
    need(salts.keys() <= digests.keys(), "an opening of bytes that no event has")
    if record is not None:
        check_record(record, events, status, end, proofs[end][0], size)
        # All outputs are text, or all are base64.
        try:
            check_outputs(record, text_bytes, digests, salts)
        except Wrong as as_text:
            try:
                check_outputs(record, decoded, digests, salts)
            except Wrong:
                raise as_text from None
        if record["files"] is not None:
            check_bytes("files", packed_files(record["files"]), digests, salts)


# Files -----------------------------------------------------------------------------------------------------------------

def read_text(path):
    """UTF-8; a byte order mark at the start is ignored."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise Unusable(f"{path}: {error}") from None


def read_json(path):
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from None


def is_receipt(value):
    def has(of, **types):
        return isinstance(of, dict) and all(isinstance(of.get(name), kind) for name, kind in types.items())
    return (
        has(value, events=list, openings=dict) and len(value["events"]) > 0
        and all(has(each, index=float, entry=str, proof=str) for each in value["events"])
        and all(has(each, salt=str) for each in value["openings"].values())
    )


def main(receipt_path, policy_path, record_path=None):
    try:
        receipt = read_json(receipt_path)
        if not is_receipt(receipt):
            raise Unusable("not a receipt")
        policy = parse_policy(read_text(policy_path))
        record = None
        if record_path is not None:
            record = read_json(record_path)
            if not isinstance(record, dict):
                raise Unusable("not a record")
        check(receipt, policy, record)
    except Unusable as problem:
        print(f"unusable: {problem}")
        return 2
    except Wrong as problem:
        print(f"not proven: {problem}")
        return 1
    print("proven")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

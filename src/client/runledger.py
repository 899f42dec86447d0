"""The API of Runledger for programs in Python 3.9 or newer. This file is the whole client: copy it. It needs no package.

    from runledger import Runledger

    runledger = Runledger("https://...", os.environ["RUNLEDGER_API_KEY"])
    result = runledger.run({"language": "python", "code": "print(6 * 7)"})
    print(result["verdict"], result["stdout"])

What must stay true: nothing runs twice because of a retry. Every submission has an Idempotency-Key from its first try on, so
a call whose answer was lost can be repeated.

Records are plain dictionaries. A later version of the service may send more fields than the types here have.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import re
import ssl
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from datetime import datetime, timezone
from email.message import Message
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, TypedDict, Union, cast
from urllib.parse import quote, urlencode, urlsplit

__all__ = ["ApiError", "Runledger", "RunledgerError", "Unreachable"]

ATTEMPTS = 6
# How long what submits, or waits for an end, goes on without a good answer, if it has no time limit: longer than a failover
# takes.
OUTAGE_S = 120.0
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 60.0
# The longest wait of one call; the service may end it earlier.
WAIT_S = 30
# Longer than that, so that the service ends the wait.
CALL_TIMEOUT_S = 45.0
# How long the first call of run waits if there is an on_accepted: the answer with the id comes at the end of that wait.
ACCEPTED_WAIT_S = 1
# Longer than the service takes for an upload, beside the time that its archive needs on the slowest line.
UPLOAD_TIMEOUT_S = 300.0
# The service closes the connection of an upload that is slower.
UPLOAD_BYTES_PER_S = 64 * 1024
# Less than the request timeout of the service: an upload that was lost later was perhaps cut, and would be again.
LATE_S = 20.0
# A stream of events has a line every 15 s. One that has a deadline is opened again after this time without a line.
STREAM_SILENCE_S = 20.0
# How long after a deadline an answer may still come: the service ends its wait up to a second after it.
GRACE_S = 5.0
# Statuses after which the same call may succeed.
TEMPORARY = frozenset({429, 500, 502, 503, 504})
# The errors of an item of a batch that was not stored, and that may be stored later.
TEMPORARY_ERRORS = frozenset({"rate_limited", "queue_full", "unavailable"})
# All others are ends, also one that a later version of the service adds.
NOT_ENDED = frozenset({"pending", "running"})
# The types of a submission's last event.
LAST_EVENTS = frozenset({"completed", "failed", "cancelled"})
LIST_PAGE = 200
# The most submissions of one call, and the most bytes of its body.
BATCH = 100
BATCH_BYTES = 8 * 2**20
# Between two calls that wait, where what is before the service does not let them wait.
LEAST_WAIT_S = 1.0
# run_all looks at each batch so often: half of the requests that a key of the tier beta has.
LOOK_S = 2
RECORD = ("id", "status")
# The word of an error where no answer came.
UNREACHABLE = "unreachable"

Encoding = Literal["utf8", "base64"]
Status = Literal["pending", "running", "completed", "error", "cancelled"]


class Limits(TypedDict, total=False):
    """Times in seconds, sizes in bytes."""

    cpu_time: Optional[float]
    wall_time: Optional[float]
    memory: Optional[int]
    stack: Optional[int]
    output: Optional[int]
    processes: Optional[int]


class TokenCompare(TypedDict, total=False):
    by: Literal["tokens"]
    case_sensitive: bool
    absolute: float
    relative: float


class _FileInput(TypedDict):
    path: str


class FileInput(_FileInput, total=False):
    """Either content or content_base64."""

    content: str
    content_base64: str


class TestInput(TypedDict, total=False):
    name: str
    stdin: str
    stdin_base64: str
    expected_output: str
    expected_output_base64: str
    args: list[str]
    limits: Limits


class _JudgeInput(TypedDict):
    language: str
    code: str
    protocol: Literal["icpc", "testlib"]


class JudgeInput(_JudgeInput, total=False):
    """A checker or an interactor."""

    files: list[FileInput]


class _SubmissionRequest(TypedDict):
    language: str
    code: str


class SubmissionRequest(_SubmissionRequest, total=False):
    stdin: str
    stdin_base64: str
    args: list[str]
    expected_output: str
    compare: Union[Literal["lines", "lenient", "exact"], TokenCompare]
    limits: Limits
    files: list[FileInput]
    tests: list[TestInput]
    test_set: str
    stop: Literal["first", "never"]
    checker: JudgeInput
    interactor: JudgeInput
    stdin_file: str
    stdout_file: str
    outputs: list[str]
    transcript: bool
    webhook_url: str
    webhook_secret: str


class BatchItem(SubmissionRequest, total=False):
    idempotency_key: Optional[str]


class Event(TypedDict):
    """
    id: None for progress and output, which are not in the log. The data of output: attempt, stream (stdout or stderr), at
    (where in the stream it begins) and text. Pieces can be missing: the record has all.
    """

    id: Optional[int]
    event: str
    data: dict[str, Any]


class CompileRecord(TypedDict):
    cpu_time: Optional[float]
    wall_time: Optional[float]
    memory_peak: Optional[int]
    exit_code: Optional[int]
    cached: bool


class TestRecord(TypedDict):
    n: int
    name: Optional[str]
    group: Optional[str]
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    cpu_time: Optional[float]
    wall_time: Optional[float]
    memory_peak: Optional[int]
    limit_exceeded: Optional[str]
    message: Optional[str]
    stdout: Optional[str]
    stderr: Optional[str]
    stdout_truncated: bool
    stderr_truncated: bool


class FileRecord(TypedDict):
    path: str
    size: int
    sha256: str
    content_base64: Optional[str]


class Progress(TypedDict):
    done: int
    of: int


class Proof(TypedDict):
    index: int
    checkpoint: int


class Result(TypedDict):
    """The record of a submission; until it has ended, most values are None."""

    id: str
    status: Status
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    stdout: Optional[str]
    stderr: Optional[str]
    stdout_truncated: Optional[bool]
    stderr_truncated: Optional[bool]
    cpu_time: Optional[float]
    wall_time: Optional[float]
    memory_peak: Optional[int]
    compile: Optional[CompileRecord]
    limits: Optional[Limits]
    limit_exceeded: Optional[str]
    tests: Optional[list[TestRecord]]
    score: Optional[float]
    files: Optional[list[FileRecord]]
    transcript: Optional[str]
    progress: Optional[Progress]
    language: str
    created_at: str
    started_at: Optional[str]
    completed_at: Optional[str]
    attempts: int
    proof: Optional[Proof]


class Summary(TypedDict):
    """A submission as in a list: nothing that its program printed."""

    id: str
    status: Status
    verdict: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    cpu_time: Optional[float]
    wall_time: Optional[float]
    memory_peak: Optional[int]
    limit_exceeded: Optional[str]
    score: Optional[float]
    language: str
    created_at: str
    started_at: Optional[str]
    completed_at: Optional[str]
    attempts: int


class Delivery(TypedDict):
    """How far the webhook of a submission is. last_status: the HTTP status of the receiver; None where none came."""

    status: Literal["waiting", "delivered", "gone", "exhausted"]
    attempts: int
    next_at: Optional[str]
    last_at: Optional[str]
    last_outcome: Optional[str]
    last_status: Optional[int]
    ended_at: Optional[str]


class Submission(Summary):
    """delivery: None where the submission has no webhook."""

    delivery: Optional[Delivery]


class ReceiptEvent(TypedDict):
    index: int
    entry: str
    proof: str


class Receipt(TypedDict):
    """The proof that the log has a submission. AUDIT.md has the format; `./runledger check-receipt` checks it."""

    events: list[ReceiptEvent]
    openings: dict[str, dict[str, str]]


class TestSet(TypedDict):
    """A stored test set, without its bytes."""

    id: str
    name: str
    tests: int
    groups: int
    bytes: int
    limits: Limits
    checker: Optional[str]
    interactive: bool
    sha256: str
    created_at: str


class Toolchain(TypedDict):
    name: str
    title: str
    aliases: list[str]
    versions: list[str]
    runs_now: bool


class Health(TypedDict):
    """GET /openapi.json describes what the dictionaries have."""

    status: Literal["ok", "degraded"]
    queue: dict[str, int]
    workers: dict[str, int]
    isolation: dict[str, Any]
    languages: list[str]
    log: dict[str, Any]


class RunledgerError(Exception):
    """
    A call that did not succeed. may_be_done: what was asked for may have been done, by this try, or by an earlier one whose
    answer was lost. idempotency_key: of the submission, in an error of submit and run. The same call with this key does not
    run it twice.
    """

    may_be_done: bool = False
    idempotency_key: Optional[str] = None


class Unreachable(RunledgerError):
    """No answer came to the last try. may_be_done is False where each try failed before anything was sent."""

    def __init__(self, message: str, may_be_done: bool = True) -> None:
        self.error = UNREACHABLE
        self.may_be_done = may_be_done
        super().__init__(message)


class ApiError(RunledgerError):
    """
    An error that the service answered. Decide by `error`, its stable word. Two words are of this client: idempotency_mismatch,
    and unexpected_answer where what answers is not the service. id: of the submission that the error is about, if one is named.
    """

    def __init__(
        self, status: int, body: Mapping[str, Any], request_id: Optional[str], may_be_done: bool = False
    ) -> None:
        self.status = status
        self.may_be_done = may_be_done
        # What is before the service, such as a proxy, has errors of another form.
        fields = body.get("fields")
        self.error: str = _text(body.get("error")) or "unknown"
        self.fields: list[dict[str, str]] = [each for each in fields if _is_field(each)] if isinstance(fields, list) else []
        self.id = _text(body.get("id"))
        self.request_id = request_id
        self._body = dict(body)
        named = [f"{each['path'] or 'the body'} {each['message']}" for each in self.fields]
        message = _text(body.get("message")) or f"the service answered {status}"
        super().__init__("\n  ".join([message, *named]))

    def __reduce__(self) -> tuple[Any, ...]:
        # Otherwise a process of a pool could not give it to the one that waits for it.
        return type(self), (self.status, self._body, self.request_id, self.may_be_done), vars(self)


class Runledger:
    """A method for each call of the API, beside summaries(), wait(), run() and run_all(). Threads may share one."""

    def __init__(
        self,
        server: str,
        api_key: str,
        *,
        attempts: Optional[int] = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """
        attempts: tries of one call, including the first; 6 if absent. What waits for an end has more of them, see wait, and so
        has what submits, if this is absent. pause: waits between them, so many seconds.
        """
        if urlsplit(server).scheme not in ("http", "https"):
            raise ValueError(f"{server} is not an address: it begins with http:// or https://")
        if not isinstance(api_key, str) or not re.fullmatch("[!-~]+", api_key):
            # Not the value: exceptions are logged.
            raise ValueError(
                "api_key is not an API key: it must be visible ASCII characters, without a space or a line break"
            )
        self._server = server.rstrip("/")
        self._api_key = api_key
        self._attempts = ATTEMPTS if attempts is None else attempts
        # With its key it can be sent again. A caller who says how often it is tried wants no more.
        self._submits_outlast = attempts is None
        self._pause = pause
        # A redirect would send the key to another address.
        self._opener = urllib.request.build_opener(_NoRedirects, _HTTPHandler, _HTTPSHandler)

    def submit(self, request: SubmissionRequest, *, idempotency_key: Optional[str] = None) -> str:
        """
        The id of the submission, once it is stored. Failures that may pass are tried again as by wait. ApiError with the word
        idempotency_mismatch, and with the id of the other submission: the idempotency key was that of another request. Each
        error of the call has the idempotency_key.
        """
        with _keyed_errors(idempotency_key) as key:
            return cast(str, self._post("/api/submit", request, key).body["id"])

    def run(
        self,
        request: SubmissionRequest,
        *,
        idempotency_key: Optional[str] = None,
        on_accepted: Optional[Callable[[str], object]] = None,
        timeout_s: Optional[float] = None,
    ) -> Result:
        """
        The record of the submission when it has ended: one call where the result is there in time. on_accepted gets the id
        within a second after the submission was stored. The submission goes on even if run fails after that. Then it waits as
        wait does. TimeoutError, as with wait: there is no result within timeout_s. Each of these errors has the
        idempotency_key.
        """
        with _keyed_errors(idempotency_key) as key:
            return self._run(request, key, on_accepted, timeout_s)

    def _run(
        self,
        request: SubmissionRequest,
        key: str,
        on_accepted: Optional[Callable[[str], object]],
        timeout_s: Optional[float],
    ) -> Result:
        deadline = _deadline(timeout_s, f"there is no result within {timeout_s} s")
        wait_s = WAIT_S if on_accepted is None else ACCEPTED_WAIT_S
        if deadline is None and on_accepted is None:
            body = self._post("/api/submit?wait=true", request, key).body
        else:
            body = self._post("/api/submit", request, key, wait_s, deadline).body
        id = body["id"]
        if on_accepted is not None:
            on_accepted(id)
        if "status" in body and _has_ended(body):
            return cast(Result, body)
        if deadline is not None:
            deadline = deadline._replace(missed=_not_ended(id, timeout_s))
            if deadline.left() <= 0:
                raise TimeoutError(deadline.missed)
        return self._wait(id, "utf8", deadline)

    def result(self, id: str, *, encoding: Encoding = "utf8") -> Result:
        """The record as it is now."""
        return self._result(id, encoding, {})

    def wait(
        self, id: str, *, encoding: Encoding = "utf8", timeout_s: Optional[float] = None
    ) -> Result:
        """
        The record when the submission has ended. TimeoutError: it has not within timeout_s, and goes on. It comes a few seconds
        late where the service does not answer. Failures that may pass are tried again until then; without timeout_s, as often
        as any call is tried, and for two minutes at least.
        """
        return self._wait(id, encoding, _deadline(timeout_s, _not_ended(id, timeout_s)))

    def cancel(self, id: str) -> Result:
        """The cancelled record. ApiError with the word already_ended: it has ended in another way."""
        path = f"/api/submissions/{quote(id, safe='')}"
        return cast(Result, self._send("DELETE", path, needs=RECORD).body)

    def submit_all(self, requests: Sequence[Union[SubmissionRequest, BatchItem]]) -> list[dict[str, Any]]:
        """
        Up to 100 submissions in one call: an answer for each, in order, with an id or an error. One whose key was that of
        another request has "mismatch". What the service rejects for the moment is sent again, after Retry-After, six times, or
        `attempts`, counted from the last try in which one was settled. With the error unreachable an answer was lost: that one
        may have been accepted, and the answer has its "idempotency_key".
        """
        return self._submit_all(_with_keys(requests), self._submits_outlast)

    def _submit_all(self, items: Sequence[BatchItem], outlasts: bool) -> list[dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        # Each item keeps its idempotency key, so none of them runs twice.
        left = list(range(len(items)))
        # Items whose first answer was lost. A later rate_limited does not say whether they were stored: the rate is checked first.
        in_doubt: set[int] = set()
        tries = 0
        while True:
            try:
                sent = self._send_items([items[n] for n in left], self._attempts - tries, outlasts)
            except RunledgerError as failure:
                # The ids of what was accepted must not be lost.
                if len(left) == len(items):
                    raise
                answers.update((n, _failed(failure, n in in_doubt)) for n in left)
                break
            answers.update(zip(left, sent.body))
            again = [n for n in left if answers[n].get("error") in TEMPORARY_ERRORS]
            if sent.may_be_done:
                in_doubt.update(again)
            answers.update((n, {**answers[n], "error": UNREACHABLE}) for n in again if n in in_doubt)
            # Tries that outlast an outage have a bound of their own.
            tries = 1 if len(again) < len(left) else tries + (1 if outlasts else sent.tries)
            left = again
            if not left or tries >= self._attempts:
                break
            self._pause(_retry_after(sent.received.get("Retry-After"), _backoff(tries)))
        return [_keyed(answers[n], item) for n, item in enumerate(items)]

    def run_all(
        self, requests: Sequence[Union[SubmissionRequest, BatchItem]]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """
        Submits all, and gives each with its place in the list as it ends: its summary, or the error of its item, with its id
        if it was accepted and could not be read. What waits is read across an outage as by wait; if that lasts longer, all that
        are left have the error, and any other error is that of its question alone. A batch is sent across an outage as by
        submit, and those behind one that failed as any call. It raises only where nothing was accepted. With the error
        unreachable an answer was lost: that one may have been accepted, and the error has its "idempotency_key". result() has
        what one printed.
        """
        items = _with_keys(requests)
        places: dict[str, list[int]] = {}
        outlasts = self._submits_outlast
        # All are encoded first: what JSON does not have would raise behind the first batches, and their ids would be lost.
        for begin, end in _batches([len(_encoded(item)) for item in items]):
            part = items[begin:end]
            try:
                answers = self._submit_all(part, outlasts)
            except RunledgerError as failure:
                # An outage that lasts longer would hold up each of the others, too.
                outlasts = outlasts and not _concerns_all(failure)
                failed = _failed(failure)
                # A batch is larger than it may be only where it has one item, which is too large by itself.
                if begin == 0 and not failure.may_be_done and failed["error"] != "payload_too_large":
                    raise
                answers = [failed for _ in part]
            for n, answer in enumerate(answers, begin):
                if "error" in answer:
                    yield n, _keyed(answer, items[n])
                elif answer.get("mismatch"):
                    # It has the id of another program's submission: this one was not run.
                    yield n, _mismatch(answer["id"])
                else:
                    places.setdefault(answer["id"], []).append(n)
            if end < len(items):
                yield from self._ended(items, places, None)
        while places:
            began = time.monotonic()
            yield from self._ended(items, places, LOOK_S)
            if places:
                self._rest_of(began)

    def _ended(
        self, items: Sequence[Mapping[str, Any]], places: dict[str, list[int]], wait_s: Optional[int]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Those that have ended. They are taken out of places. With wait_s, where one question fails for good,
        what it asked for is taken out, too, and in an outage all of it."""
        ids = list(places)
        if wait_s is None:
            # Behind each batch there is one look. More of them would cost more of the rate than the batches.
            ids = ids[:BATCH]
        for begin in range(0, len(ids), BATCH):
            asked = ids[begin : begin + BATCH]
            try:
                found = {each["id"]: each for each in self._summaries(asked, wait_s, outlasts=wait_s is not None)}
            except RunledgerError as failure:
                if wait_s is None:
                    return
                # An outage would last for the others, too. What is wrong with this question alone is not wrong with theirs.
                asked = list(places) if _concerns_all(failure) else asked
                found = {id: {"id": id, **_failed(failure)} for id in asked}
            for id in asked:
                # Retention may have removed it.
                ended = found.get(id) or {"id": id, "error": "not_found", "message": "It is there no longer."}
                if "error" in ended or _has_ended(ended):
                    for n in places.pop(id):
                        yield n, _keyed(ended, items[n])
            if not places:
                return

    def _send_items(self, items: Sequence[Mapping[str, Any]], attempts: int, outlasts: bool) -> _Sent:
        headers = {"Content-Type": "application/json"}
        # Each by itself: an item with half of a surrogate pair makes no other one larger.
        body = b"[" + b",".join(map(_encoded, items)) + b"]"
        sent = self._send(
            "POST", "/api/submissions", body, headers, attempts=attempts, is_list=True, outlasts=outlasts
        )
        if len(sent.body) != len(items) or not all(isinstance(each, dict) for each in sent.body):
            raise self._unexpected_answer(sent)
        return sent

    def submissions(
        self,
        *,
        status: Optional[Status] = None,
        verdict: Optional[str] = None,
        language: Optional[str] = None,
        test_set: Optional[str] = None,
        from_: Union[datetime, str, None] = None,
        to: Union[datetime, str, None] = None,
        after: Optional[str] = None,
        limit: int = LIST_PAGE,
    ) -> Iterator[dict[str, Any]]:
        """
        The submissions of the account, newest first, without what they printed. test_set: what this stored set judges. from_
        and to: what was accepted at this time or later, and before that one; a datetime without a zone is a local time. after:
        the `next` of a page of the API. limit: of one call; all pages are asked for.
        """
        words = {"status": status, "verdict": verdict, "language": language, "test_set": test_set, "after": after}
        given = {"limit": str(limit), "from": _time(from_), "to": _time(to), **words}
        query = {name: text for name, text in given.items() if text is not None}
        while True:
            page = self._get(f"/api/submissions?{urlencode(query)}", needs=("submissions", "next"))
            yield from page["submissions"]
            if page["next"] is None:
                return
            query["after"] = page["next"]

    def summaries(self, ids: Sequence[str], *, wait_s: Optional[float] = None) -> list[Summary]:
        """
        Up to 100 submissions by their ids, in one call, in the order of the ids and without those that the account does not
        have. With wait_s the service holds the call until all of them have ended or so many seconds are over, 30 at most: look
        at each status.
        """
        return self._summaries(ids, wait_s)

    def _summaries(
        self, ids: Sequence[str], wait_s: Optional[float], *, outlasts: bool = False
    ) -> list[Summary]:
        if not ids:
            return []
        headers = {} if wait_s is None else {"Prefer": f"wait={math.ceil(wait_s)}"}
        path = f"/api/submissions?ids={','.join(quote(id, safe='') for id in ids)}"
        sent = self._send("GET", path, None, headers, needs=("submissions",), outlasts=outlasts)
        return cast("list[Summary]", sent.body["submissions"])

    def submission(self, id: str) -> Submission:
        """One submission, without what it printed, and how far its webhook is."""
        path = f"/api/submissions/{quote(id, safe='')}"
        return cast(Submission, self._get(path, needs=(*RECORD, "delivery")))

    def events(
        self, id: str, *, after: int = 0, timeout_s: Optional[float] = None
    ) -> Iterator[Event]:
        """
        What happens to a submission, to its end, and what its program prints until then, as far as it comes in time. The
        stream is opened again when it is cut, and that is tried as long as by wait. TimeoutError: the submission has not ended
        within timeout_s from this call, and goes on. It comes up to 20 s late while nothing happens.
        """
        return self._events(id, after, _deadline(timeout_s, _not_ended(id, timeout_s)))

    def _events(self, id: str, after: int, deadline: Optional[_Deadline]) -> Iterator[Event]:
        silence_s = CALL_TIMEOUT_S if deadline is None else STREAM_SILENCE_S
        shown: dict[tuple[int, str], int] = {}
        while True:
            headers = {"Last-Event-ID": str(after)}
            path = f"/api/result/{quote(id, safe='')}/events"
            sent = self._send(
                "GET", path, None, headers, timeout_s=silence_s, streams=True, deadline=deadline, outlasts=True
            )
            # There is nothing behind that event, and there will be nothing.
            if sent.status == 204:
                return
            try:
                with sent.body:
                    for event in _events_in(_until(deadline, sent.body)):
                        if event["event"] == "output" and not _is_new(event["data"], shown):
                            continue
                        yield event
                        after = event["id"] or after
                        if event["event"] in LAST_EVENTS:
                            return
            except (OSError, http.client.HTTPException):
                pass
            if deadline is None:
                self._pause(1.0)
                continue
            if deadline.left() > 0:
                self._pause(min(1.0, deadline.left()))
            if deadline.left() <= 0:
                raise TimeoutError(deadline.missed)

    def receipt(self, id: str) -> Optional[Receipt]:
        """None while the log is not sealed up to the submission's last event."""
        sent = self._send("GET", f"/api/result/{quote(id, safe='')}/proof")
        if any(name not in sent.body for name in (("events", "openings") if sent.status == 200 else ("id",))):
            raise self._unexpected_answer(sent)
        return cast(Receipt, sent.body) if sent.status == 200 else None

    def upload_test_set(self, archive: bytes) -> TestSet:
        """
        Stores the test set of a problem package, a zip archive. The same content again is the same set. An upload that was lost
        after 20 seconds or more is not sent again: the line may be too slow for it.
        """
        headers = {"Content-Type": "application/zip"}
        return cast(
            TestSet,
            self._send(
                "POST",
                "/api/test-sets",
                archive,
                headers,
                timeout_s=_upload_timeout(len(archive)),
                uploads=True,
                needs=("id",),
            ).body,
        )

    def test_sets(self) -> list[TestSet]:
        return cast("list[TestSet]", self._get("/api/test-sets", needs=("test_sets",))["test_sets"])

    def test_set(self, id: str) -> TestSet:
        return cast(TestSet, self._get(f"/api/test-sets/{quote(id, safe='')}", needs=("id",)))

    def delete_test_set(self, id: str) -> None:
        """ApiError with the word in_use while a submission that has not ended needs it."""
        self._send("DELETE", f"/api/test-sets/{quote(id, safe='')}", removes=True)

    def languages(self) -> list[str]:
        """The names of the languages that can run now."""
        return cast("list[str]", self._get("/api/languages", is_list=True))

    def toolchains(self) -> list[Toolchain]:
        return cast("list[Toolchain]", self._get("/api/toolchains", is_list=True))

    def health(self) -> Health:
        return cast(Health, self._get("/api/health", needs=("status", "queue")))

    def health_ready(self) -> Health:
        """ApiError with the word unavailable while no worker is alive. This and the probes are tried once."""
        return cast(Health, self._get("/api/health/ready", attempts=1, needs=("status",)))

    def livez(self) -> dict[str, str]:
        return cast("dict[str, str]", self._get("/livez", attempts=1, needs=("status",)))

    def readyz(self) -> dict[str, str]:
        return cast("dict[str, str]", self._get("/readyz", attempts=1, needs=("status",)))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of this deployment."""
        return cast("dict[str, Any]", self._get("/openapi.json", needs=("openapi",)))

    def _post(
        self,
        path: str,
        request: SubmissionRequest,
        key: str,
        wait_s: Optional[int] = None,
        deadline: Optional[_Deadline] = None,
    ) -> _Sent:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        body = _encoded(request)
        if wait_s is not None:
            headers["Prefer"] = f"wait={wait_s}"
        outlasts = self._submits_outlast
        return self._send("POST", path, body, headers, needs=("id",), deadline=deadline, outlasts=outlasts)

    def _wait(self, id: str, encoding: Encoding, deadline: Optional[_Deadline]) -> Result:
        while True:
            began = time.monotonic()
            record = self._result(id, encoding, {"Prefer": f"wait={WAIT_S}"}, deadline, outlasts=True)
            if _has_ended(record):
                return record
            if deadline is not None and deadline.left() <= 0:
                raise TimeoutError(deadline.missed)
            self._rest_of(began, math.inf if deadline is None else deadline.left())

    def _rest_of(self, began: float, most_s: float = math.inf) -> None:
        rest_s = min(began + LEAST_WAIT_S - time.monotonic(), most_s)
        if rest_s > 0:
            self._pause(rest_s)

    def _result(
        self,
        id: str,
        encoding: Encoding,
        headers: Mapping[str, str],
        deadline: Optional[_Deadline] = None,
        *,
        outlasts: bool = False,
    ) -> Result:
        query = urlencode({"encoding": encoding})
        path = f"/api/result/{quote(id, safe='')}?{query}"
        sent = self._send("GET", path, None, headers, needs=RECORD, deadline=deadline, outlasts=outlasts)
        return cast(Result, sent.body)

    def _get(
        self,
        path: str,
        *,
        attempts: Optional[int] = None,
        needs: Sequence[str] = (),
        is_list: bool = False,
    ) -> Any:
        return self._send("GET", path, attempts=attempts, needs=needs, is_list=is_list).body

    def _send(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        headers: Optional[Mapping[str, str]] = None,
        *,
        timeout_s: float = CALL_TIMEOUT_S,
        attempts: Optional[int] = None,
        streams: bool = False,
        removes: bool = False,
        uploads: bool = False,
        needs: Sequence[str] = (),
        is_list: bool = False,
        deadline: Optional[_Deadline] = None,
        outlasts: bool = False,
    ) -> _Sent:
        """
        Tries again after failures that may pass. streams: the body is not read yet. removes: a 404 is a success after a try
        whose answer was lost, because that one may have removed it. uploads: one that was lost late is not sent again. needs:
        what each good answer has, so that an answer of another program is an error. is_list: a good answer is a list.
        deadline: no try begins later, and a call that waits lets the service wait until then. outlasts: it is tried until the
        deadline; without one, for OUTAGE_S at least.
        """
        all_headers = {**(headers or {}), "X-API-Key": self._api_key}
        wait_s = int(all_headers.get("Prefer", "wait=0").removeprefix("wait="))
        attempt = 0
        # Since the first try failed. That one may have been held by the service before.
        failing_s = 0.0
        may_be_done = False
        while True:
            attempt += 1
            if deadline is not None:
                left_s = max(deadline.left(), 0)
                timeout_s = min(timeout_s, left_s + GRACE_S)
                if wait_s > 0:
                    all_headers["Prefer"] = f"wait={min(int(left_s) + 1, wait_s)}"
            # A new one for each try: through a proxy, urllib changes it, and would send a later try unencrypted.
            request = urllib.request.Request(f"{self._server}{path}", body, all_headers, method=method)
            own_pause_s = pause_s = _backoff(min(attempt, ATTEMPTS) if outlasts else attempt)
            began = time.monotonic()
            lost: Optional[str] = None
            try:
                status, found, received = self._once(request, timeout_s, streams)
            except (OSError, http.client.HTTPException) as failure:
                lost = str(getattr(failure, "reason", failure))
                may_be_done = may_be_done or not _never_sent(failure)
                error: RunledgerError = Unreachable(f"cannot reach {self._server}: {lost}", may_be_done)
                # Another try finds the same certificate.
                if isinstance(getattr(failure, "reason", failure), ssl.SSLCertVerificationError):
                    raise error from failure
            else:
                problem = found if isinstance(found, dict) else {}
                # 408: the submission goes on, and its id leads to the result.
                accepted = status < 300 or (status == 408 and "id" in problem)
                removed = removes and may_be_done and status == 404
                has_body = accepted and not (status == 204 and (streams or removes))
                fault = self._fault(status, found, received, streams, None if is_list else needs) if has_body else None
                if fault is None and (accepted or removed):
                    return _Sent(status, found, received, attempt, may_be_done)
                may_be_done = may_be_done or (status >= 500 and problem.get("error") != "queue_full")
                if 300 <= status < 400:
                    problem = self._unexpected(status)
                error = ApiError(status, fault or problem, received.get("X-Request-Id"), may_be_done)
                if fault is not None and streams:
                    found.close()
                if fault is not None or status not in TEMPORARY:
                    raise error
                pause_s = _retry_after(received.get("Retry-After"), pause_s)
                # What a router answers for a service that has closed the connection.
                if status >= 500 and not isinstance(problem.get("error"), str):
                    lost = f"status {status}"
            took_s = time.monotonic() - began
            if uploads and lost is not None and took_s >= LATE_S:
                raise Unreachable(self._lost_upload(len(body or b""), took_s, lost)) from error
            is_last = attempt >= (self._attempts if attempts is None else attempts)
            if outlasts:
                # What is before the service may say Retry-After: 0.
                pause_s = max(pause_s, min(own_pause_s, LEAST_WAIT_S))
                failing_s += took_s if attempt > 1 else 0.0
                is_last = is_last and deadline is None and failing_s >= OUTAGE_S
                failing_s += pause_s
            if deadline is not None and deadline.left() <= (0 if is_last else pause_s):
                if not is_last:
                    self._pause(max(deadline.left(), 0.0))
                raise TimeoutError(f"{deadline.missed}; the last try failed: {error}") from error
            if is_last:
                raise error
            self._pause(pause_s)

    def _fault(
        self, status: int, found: Any, received: Message, streams: bool, needs: Optional[Sequence[str]]
    ) -> Optional[dict[str, str]]:
        """Why an answer with a good status is not what was asked for; None where it is."""
        if streams:
            expected = received.get_content_type() == "text/event-stream"
        else:
            # None: a list is expected.
            expected = isinstance(found, list if needs is None else dict) and all(
                name in found for name in needs or ()
            )
        if not expected:
            return self._unexpected(status)
        if received.get("Idempotency-Mismatch") != "true":
            return None
        return _mismatch(found["id"])

    def _lost_upload(self, size: int, took_s: float, reason: str) -> str:
        return (
            f"{self._server} gave no answer to an upload of {size / 2**20:.1f} MiB after {took_s:.0f} s: {reason}. "
            "It is not sent again. "
            "After its request timeout (30 s by default) the service closes a connection that brings less than "
            f"{UPLOAD_BYTES_PER_S // 1024} KiB a second, or whose room another account needs"
        )

    def _unexpected_answer(self, sent: _Sent) -> ApiError:
        return ApiError(sent.status, self._unexpected(sent.status), sent.received.get("X-Request-Id"))

    def _unexpected(self, status: int) -> dict[str, str]:
        message = f"{self._server} answered {status}, but not as Runledger does: check the address"
        return {"error": "unexpected_answer", "message": message}

    def _once(
        self, request: urllib.request.Request, timeout_s: float, streams: bool
    ) -> tuple[int, Any, Message]:
        try:
            if streams:
                answer = self._opener.open(request, timeout=timeout_s)
                return answer.status, answer, answer.headers
            with self._opener.open(request, timeout=timeout_s) as answer:
                return answer.status, _parsed(answer.read()), answer.headers
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, _parsed(answer.read()), answer.headers


class _Sent(NamedTuple):
    """A good answer. tries: how many it took. may_be_done: what an earlier one asked for may have happened."""

    status: int
    body: Any
    received: Message
    tries: int
    may_be_done: bool


class _Deadline(NamedTuple):
    """at: by time.monotonic(). missed: the message of the TimeoutError."""

    at: float
    missed: str

    def left(self) -> float:
        return self.at - time.monotonic()


def _deadline(timeout_s: Optional[float], missed: str) -> Optional[_Deadline]:
    return None if timeout_s is None else _Deadline(time.monotonic() + timeout_s, missed)


@contextmanager
def _keyed_errors(given: Optional[str]) -> Iterator[str]:
    """The key of a submission, which is also on each error: with it, the caller can send the submission again."""
    key = given or str(uuid.uuid4())
    try:
        yield key
    except (RunledgerError, TimeoutError) as failure:
        failure.idempotency_key = key  # type: ignore[union-attr]
        raise


def _with_keys(requests: Sequence[Mapping[str, Any]]) -> list[BatchItem]:
    keyed = [{**request, "idempotency_key": request.get("idempotency_key") or str(uuid.uuid4())} for request in requests]
    return cast("list[BatchItem]", keyed)


def _batches(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where each batch of items of these sizes begins and ends, so that no call has too many or too many bytes."""
    begin, bytes_in = 0, 2
    for n, size in enumerate(sizes):
        if n > begin and (n - begin == BATCH or bytes_in + size + 1 > BATCH_BYTES):
            yield begin, n
            begin, bytes_in = n, 2
        bytes_in += size + 1
    if sizes:
        yield begin, len(sizes)


def _encoded(value: object) -> bytes:
    """As few bytes as there can be: the service reads a bounded number."""

    def dumped(ensure_ascii: bool) -> bytes:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=ensure_ascii)
        return text.encode()

    try:
        return dumped(ensure_ascii=False)
    except UnicodeEncodeError:
        # Half of a surrogate pair. The service says where it is.
        return dumped(ensure_ascii=True)


def _never_sent(failure: Exception) -> bool:
    """There was no connection."""
    return getattr(getattr(failure, "reason", failure), "is_unconnected", False)


def _concerns_all(failure: RunledgerError) -> bool:
    """Each question would have the same answer now."""
    return not isinstance(failure, ApiError) or failure.status in (401, 403, 429, 502, 503, 504)


def _mismatch(id: str) -> dict[str, str]:
    message = f"the idempotency key is that of another request, submission {id}: use a new key for this one"
    return {"error": "idempotency_mismatch", "message": message, "id": id}


def _failed(failure: RunledgerError, in_doubt: bool = False) -> dict[str, Any]:
    """As the service says it of an item of a batch. One that may have been accepted was not rejected."""
    in_doubt = in_doubt or not isinstance(failure, ApiError) or failure.may_be_done
    word = UNREACHABLE if in_doubt else failure.error
    return {"error": word, "message": str(failure)}


def _keyed(answer: dict[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """With the key by which one that may have been accepted can be sent again."""
    if answer.get("error") != UNREACHABLE:
        return answer
    return {**answer, "idempotency_key": item["idempotency_key"]}


def _has_ended(record: Mapping[str, Any]) -> bool:
    return record["status"] not in NOT_ENDED


def _not_ended(id: str, timeout_s: Optional[float]) -> str:
    return f"submission {id} has not ended within {timeout_s} s"


def _until(deadline: Optional[_Deadline], lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line
        if deadline is not None and deadline.left() <= 0:
            return


class _AnsweredEarly(http.client.HTTPConnection):
    """
    The service may answer, and close the connection, before it has read a large body. Then its answer is read. An error that
    comes before there is a connection with a verified certificate is marked.
    """

    def connect(self) -> None:
        try:
            super().connect()
        except OSError as failure:
            # A handshake that fails leaves a socket, as if there were a connection.
            self.close()
            failure.is_unconnected = True  # type: ignore[attr-defined]
            raise

    def request(self, *words: Any, **named: Any) -> None:
        try:
            super().request(*words, **named)
        except ConnectionError:
            if self.sock is None:
                raise


class _AnsweredEarlyTls(_AnsweredEarly, http.client.HTTPSConnection):
    pass


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_AnsweredEarly, req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_AnsweredEarlyTls, req)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _events_in(lines: Iterable[bytes]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
            continue
        if "event" in fields and "data" in fields:
            id = int(fields["id"]) if "id" in fields else None
            yield {"id": id, "event": fields["event"], "data": json.loads(fields["data"])}
        fields = {}


def _is_new(output: Mapping[str, Any], shown: dict[tuple[int, str], int]) -> bool:
    """A stream that is opened again begins with the output of the last seconds."""
    name = (output["attempt"], output["stream"])
    if output["at"] <= shown.get(name, -1):
        return False
    shown[name] = output["at"]
    return True


def _parsed(text: bytes) -> Any:
    """None if it is neither an object nor an array in JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None


def _is_field(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("path", "message"))


def _time(at: Union[datetime, str, None]) -> Optional[str]:
    return at.astimezone(timezone.utc).isoformat() if isinstance(at, datetime) else at


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None


def _retry_after(header: Optional[str], otherwise_s: float) -> float:
    if header is None or not header.isascii() or not header.isdigit():
        return otherwise_s
    return min(float(header), LONGEST_PAUSE_S)


def _upload_timeout(size: int) -> float:
    return UPLOAD_TIMEOUT_S + size / UPLOAD_BYTES_PER_S


def _backoff(attempt: int) -> float:
    """Doubles with each try, with jitter, so that callers that failed together do not retry together."""
    full: float = min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S)
    return full * random.uniform(0.5, 1)

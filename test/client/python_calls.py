"""Calls src/client/runledger.py as a test says: a JSON line in for each call, a JSON line out with what came of it."""

import base64
import json
import os
import pickle
import sys
import typing
from datetime import datetime

import runledger

if "LATE_S" in os.environ:
    runledger.LATE_S = float(os.environ["LATE_S"])
pauses = []
given = {"attempts": int(os.environ["ATTEMPTS"])} if "ATTEMPTS" in os.environ else {}
client = runledger.Runledger(os.environ["SERVER"], os.environ["KEY"], pause=pauses.append, **given)


def fields_of(name):
    return sorted(typing.get_type_hints(getattr(runledger, name)))


def answer(call):
    method, args, options = call["method"], call["args"], call["options"]
    if method == "fields_of":
        return fields_of(*args)
    if method == "methods":
        return sorted(name for name in dir(client) if not name.startswith("_"))
    if method == "upload_timeout":
        return runledger._upload_timeout(*args)
    if method == "pauses":
        return pauses
    if method == "upload_test_set":
        args = [base64.b64decode(args[0])]
    if method == "submissions_since":
        return list(client.submissions(from_=datetime.fromtimestamp(args[0]), to=datetime.fromtimestamp(args[1])))
    if method == "accepted_by_run":
        accepted = []
        try:
            client.run(*args, on_accepted=accepted.append, **options)
        except (runledger.RunledgerError, TimeoutError) as error:
            return {"accepted": accepted, "thrown": type(error).__name__, "message": str(error)}
    if method == "events_until":
        events = []
        try:
            for event in client.events(*args, **options):
                events.append(event["event"])
        except TimeoutError as error:
            return {"events": events, "thrown": "TimeoutError", "message": str(error)}
        return {"events": events, "thrown": None}
    value = getattr(client, method)(*args, **options)
    return list(value) if isinstance(value, typing.Iterator) else value


for line in sys.stdin:
    try:
        out = {"value": answer(json.loads(line))}
    except (runledger.RunledgerError, TimeoutError) as thrown:
        # As a pool of processes gives it to the one that asked.
        error = pickle.loads(pickle.dumps(thrown))
        shown = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        out = {"thrown": type(error).__name__, "message": str(error), **shown}
    print(json.dumps(out), flush=True)

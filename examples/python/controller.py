#!/usr/bin/env python3
"""The controller of an admission check that keeps jobs back during a maintenance.

The ConfigMap "maintenance" in the namespace "maintenance" says how long it takes:

  until: "2026-12-01T06:00:00Z"

Without the ConfigMap, and from that time on, jobs may start.

It takes Python 3.7 or later and nothing else. docs/authors-without-go.md has the
requests that it sends, and the rules that it keeps.

  controller.py                         # in a pod
  controller.py http://127.0.0.1:8001   # elsewhere, with kubectl proxy
"""
import datetime, json, logging, math, os, ssl, sys, threading, time
from urllib import error, parse, request

CONTROLLER = "example.com/maintenance"  # spec.controllerName of the AdmissionChecks
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"  # that of a pod
KUEUE = "/apis/kueue.x-k8s.io"
VERSIONS = ["v1beta2", "v1beta1"]  # what is read and written is the same in both
WATCHED = {
    "checks": (KUEUE + "/{version}/admissionchecks", {}),
    "workloads": (KUEUE + "/{version}/workloads", {}),
    "configs": ("/api/v1/namespaces/maintenance/configmaps", {"fieldSelector": "metadata.name=maintenance"}),
}
LATEST = int(time.time()) + 2**31 - 1  # with later ones the delay is more than the API takes
seen = {}  # what there is of each, by UID
changed = threading.Event()


def call(method, path, query, body=None, timeout=30):
    headers = {"Content-Type": "application/apply-patch+yaml"}  # JSON is YAML
    if in_pod:
        with open(ACCOUNT + "token") as token:  # another one every hour
            headers["Authorization"] = "Bearer " + token.read()
    url = f"{server}{path}?{parse.urlencode(query)}"
    data = body and json.dumps(body).encode()
    return opener.open(request.Request(url, data, headers, method=method), timeout=timeout)


def newest_version():
    """Of those that the API server has and this knows. An API server that is not in reach is waited for."""
    served = None
    while served is None:
        try:
            with call("GET", KUEUE, {}) as response:
                served = [v["version"] for v in json.load(response)["versions"]]
        except error.HTTPError as e:
            if e.code != 404:
                raise
            served = []
        except OSError as e:
            logging.error("asking for the versions of Kueue's API: %s", e)
            time.sleep(1)
    for version in VERSIONS:
        if version in served:
            return version
    sys.exit(f"Kueue's API is not installed, or of a version that this does not know: served {served}, known {VERSIONS}")


def watch(kind, path, query):
    while True:  # list again whenever the watch ends: in time, broken, or with 410, too old
        try:
            with call("GET", path, query) as response:
                listed = json.load(response)
            seen[kind] = {obj["metadata"]["uid"]: obj for obj in listed["items"]}
            changed.set()
            query_from = dict(query, watch=1, timeoutSeconds=300, resourceVersion=listed["metadata"]["resourceVersion"])
            with call("GET", path, query_from, timeout=330) as events:
                for event in map(json.loads, events):
                    if event["type"] == "ERROR":
                        raise OSError(event["object"].get("message"))
                    seen[kind][event["object"]["metadata"]["uid"]] = event["object"]
                    if event["type"] == "DELETED":
                        del seen[kind][event["object"]["metadata"]["uid"]]
                    changed.set()
        except Exception as e:
            logging.error("watching %s: %s", kind, e)
            time.sleep(1)


def decide(wl, mine, end, now):
    """The entry that is to be written; None: it is not our turn, or nothing is new."""
    if wl["spec"].get("active") is False or is_true(wl, "Finished") or "deletionTimestamp" in wl["metadata"]:
        return None
    evicted = seconds(conditions(wl)["Evicted"]["lastTransitionTime"]) if is_true(wl, "Evicted") else 0
    asks = mine["state"] == "Pending" and is_true(wl, "QuotaReserved") and not evicted
    start = max(math.ceil(now), evicted)  # from here on Kueue counts the delay
    until = max(end, start + 1) if end > now else end
    if mine["state"] == "Retry" and evicted:  # it waits; for the right time?
        if 0 <= max(seconds(mine["lastTransitionTime"]), evicted) + mine.get("requeueAfterSeconds", 0) - until <= 5:
            return None
    elif not asks:
        return None
    answer = {"name": mine["name"], "state": "Ready" if asks else "Pending", "message": "There is no maintenance"}
    if end > now:
        answer.update(state="Retry", requeueAfterSeconds=until - start, message="Maintenance until " + stamp(end))
    return dict(answer, lastTransitionTime=stamp(now))


def answer(wl, ours, end, problem):
    for mine in wl.get("status", {}).get("admissionChecks", []):
        if mine["name"] in ours and not problem:
            entry = decide(wl, mine, end, time.time())
            if entry:
                apply(wl, mine["name"], {"admissionChecks": [entry]})


def activate(check, ours, end, problem):
    new = {"type": "Active", "status": "True", "reason": "Active", "message": "The controller is at work"}
    if problem:
        new.update(status="False", reason="BadConfigMap", message=problem)
    new["observedGeneration"] = check["metadata"]["generation"]
    old = conditions(check).get("Active", {})
    if not new.items() <= old.items():
        same = old.get("status") == new["status"]
        new["lastTransitionTime"] = old["lastTransitionTime"] if same else stamp(time.time())
        apply(check, check["metadata"]["name"], {"conditions": [new]})


def apply(obj, check, status):
    """Writes our part of the status, unless somebody has written the object since it was read."""
    metadata = {k: obj["metadata"][k] for k in ("namespace", "name", "resourceVersion") if k in obj["metadata"]}
    namespace = "namespaces/" + metadata["namespace"] + "/" if "namespace" in metadata else ""
    path = f"/apis/{obj['apiVersion']}/{namespace}{obj['kind'].lower()}s/{metadata['name']}/status"
    body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "status": status}
    # A field manager for each check: what it has applied before, and leaves out now, is removed.
    with call("PATCH", path, {"fieldManager": f"{CONTROLLER}/{check}", "force": "true"}, body) as response:
        obj.update(json.load(response))  # until the watch brings it


def look():
    """Writes what is to be written, as things are. True: it has to look again."""
    end, problem, again = 0, None, False
    try:
        for config in list(seen["configs"].values()):
            end = min(seconds((config.get("data") or {}).get("until", "")), LATEST)
    except ValueError:
        problem = "until is not a time such as 2026-12-01T06:00:00Z"
    checks, workloads = list(seen["checks"].values()), list(seen["workloads"].values())
    ours = {c["metadata"]["name"]: c for c in checks if c["spec"]["controllerName"] == CONTROLLER}
    for write, obj in [(activate, c) for c in ours.values()] + [(answer, wl) for wl in workloads]:
        try:
            write(obj, ours, end, problem)
        except error.HTTPError as e:
            again = again or e.code not in (404, 422)  # it is gone; it is wrong, and will be
            if e.code not in (404, 409):  # 409: somebody was faster, so decide on what they have written
                logging.error("%s: %s %s", obj["metadata"]["name"], e.code, e.read().decode())
        except Exception as e:
            logging.error("%s: %r", obj["metadata"]["name"], e)
            again = True
    return again


def conditions(obj):
    return {c["type"]: c for c in obj.get("status", {}).get("conditions", [])}


def is_true(obj, condition):
    return conditions(obj).get(condition, {}).get("status") == "True"


def seconds(text):
    return math.ceil(datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp())


def stamp(t):
    """In whole seconds, as the API has them: rounded up, or the delay would end early."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(t)))


in_pod = len(sys.argv) < 2
server = "https://kubernetes.default.svc" if in_pod else sys.argv[1]
if in_pod and not os.path.exists(ACCOUNT):
    sys.exit(__doc__ + "\nThis is no pod: give the address of kubectl proxy.")
tls = ssl.create_default_context(cafile=ACCOUNT + "ca.crt" if in_pod else None)
tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 asks for more than some clusters' certificates have
opener = request.build_opener(request.ProxyHandler({}), request.HTTPSHandler(context=tls))
version = newest_version()
for kind, (path, query) in WATCHED.items():
    threading.Thread(target=watch, args=(kind, path.format(version=version), query), daemon=True).start()
while len(seen) < len(WATCHED):  # what has not been listed yet may be there all the same
    time.sleep(0.1)
while True:
    changed.clear()  # before it looks: what comes meanwhile has it look again
    changed.wait(1 if look() else None)

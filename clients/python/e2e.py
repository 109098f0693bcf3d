"""Uses the client as tests/clients asks for, and prints what came of it."""

import json
import sys

import probity

ask = json.loads(sys.argv[1])
client = probity.Client(ask["url"], ask["key"])
single = client.verify(ask["address"], details=True)
batch = client.verify_batch([ask["address"], "no address"])
progress = []
job = client.upload(ask["list"], lambda sent, total: progress.append((sent, total)), details="true")
job = client.wait(job["job_id"])
large = client.upload(ask["large"], lambda sent, total: progress.append((sent, total)), start="false")
try:
    probity.Client(ask["url"], "wrong").verify(ask["address"])
    refused = 0
except probity.Error as error:
    refused = error.status
hook = ask["webhook"]
body = hook["body"].encode()
event = probity.read_webhook(hook["headers"], body, hook["secret"])
try:
    probity.read_webhook(hook["headers"], body + b" ", hook["secret"])
    forged = "read"
except probity.WebhookError:
    forged = "refused"
print(json.dumps({
    "single": single["status"],
    "control": single["details"]["control"]["kind"],
    "batch": [result["status"] for result in batch],
    "sent_whole": progress[-1][0] == progress[-1][1],
    "large": large["job_id"],
    "job": job["job_id"],
    "ended": job["status"],
    "rows": sum(1 for _ in client.rows(job["job_id"])),
    "valid": sum(1 for _ in client.rows(job["job_id"], "VALID")),
    "refused": refused,
    "event": event["event"],
    "forged": forged,
}))

"""Shows the messages of a queue in Azurite and leaves them there: messages.py QUEUE [PORT]."""

import base64
import hashlib
import hmac
import json
import sys
import urllib.error
import urllib.request
from email.utils import formatdate
from xml.etree import ElementTree

# The same in every Azurite of the world: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

queue = sys.argv[1]
port = sys.argv[2] if len(sys.argv) > 2 else "10001"
date = formatdate(usegmt=True)
signed = "\n".join(["GET"] + [""] * 11 + [
    f"x-ms-date:{date}", "x-ms-version:2021-12-02",
    f"/{ACCOUNT}/{ACCOUNT}/{queue}/messages", "numofmessages:32", "peekonly:true",
])
signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
request = urllib.request.Request(
    f"http://127.0.0.1:{port}/{ACCOUNT}/{queue}/messages?peekonly=true&numofmessages=32",
    headers={"x-ms-date": date, "x-ms-version": "2021-12-02", "Authorization": f"SharedKey {ACCOUNT}:{signature}"},
)
try:
    answer = urllib.request.urlopen(request).read()
except urllib.error.HTTPError as error:
    sys.exit(f"{queue}: {error.code} {error.headers.get('x-ms-error-code', error.reason)}")
for text in ElementTree.fromstring(answer).iter("MessageText"):
    message = json.loads(base64.b64decode(text.text))
    event = message["event"]
    print(message["poller"], event["op"], event["key"], event["data"])

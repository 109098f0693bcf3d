"""Keeps each POSTed body with a NUL behind it in the file BODIES."""
import os

from flask import Flask, request

app = Flask(__name__)


@app.post("/hook")
def hook():
    with open(os.environ["BODIES"], "ab") as f:
        f.write(request.get_data() + b"\0")
    return ""

"""The same as an Azure Functions app: one function for webhooks, one for queue messages.

ORDERS_DATABASE is the file of the database; put your own in its place.
"""

import json
import os

import azure.functions as func

from receiver import open_database, receive, take

app = func.FunctionApp()


@app.function_name("orders")
@app.route(route="orders", methods=["POST"], auth_level=func.AuthLevel.FUNCTION)
def orders(request: func.HttpRequest) -> func.HttpResponse:
    headers = {name.lower(): value for name, value in request.headers.items()}
    database = open_database(os.environ["ORDERS_DATABASE"])
    try:
        status, answer = receive(database, headers, request.get_body())
    finally:
        database.close()
    return func.HttpResponse(json.dumps(answer), status_code=status, mimetype="application/json")


@app.function_name("order_events")
@app.queue_trigger(arg_name="message", queue_name="order-events", connection="AzureWebJobsStorage")
def order_events(message: func.QueueMessage) -> None:
    """What raises comes again, and after five times goes to order-events-poison."""
    told = json.loads(message.get_body())
    if "claim_check" in told:
        raise ValueError("the event is too large for a message: read it from the blob that claim_check names")
    database = open_database(os.environ["ORDERS_DATABASE"])
    try:
        take(database, told["poller"], told["event"])
    finally:
        database.close()

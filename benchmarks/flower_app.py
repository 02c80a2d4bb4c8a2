"""Flower's client app. It has to be a module of its own: one in ``__main__`` is sent anew to the workers every time."""

from __future__ import annotations

from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch_parts import Tensors, build, tensors, train
from workloads import WORKLOADS

app = ClientApp()


@cache
def examples(workload: str, seed: int) -> Tensors:
    """A workload's examples, made once in each worker."""
    torch.set_num_threads(1)
    return tensors(WORKLOADS[workload], seed)


@app.train()
def reply(message: Message, context: Context) -> Message:
    """A client's training."""
    config = message.content["config"]
    workload = WORKLOADS[config["workload"]]
    x, y = examples(workload.name, config["seed"]).client(context.node_config["partition-id"])
    model = build(workload.model, seed=0)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    torch.manual_seed(config["server-round"])
    train(model, x, y, workload)
    metrics = MetricRecord({"num-examples": len(y), "steps": workload.steps(len(y))})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)

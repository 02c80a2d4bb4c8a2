"""Federated averaging on MNIST, IID and not, in one figure."""

import fedloom as fl

mnist = fl.data.mnist()
algorithm = fl.fedavg(fraction=0.1, epochs=1, batch_size=10, lr=0.1)

runs = []
for scheme in (fl.partition.iid(clients=100), fl.partition.shards(clients=100, per_client=2)):
    data = mnist.partition(scheme)
    runs.append(fl.run(data, fl.tasks.two_nn(), algorithm, rounds=60, evaluate=["test"]))
    print(runs[-1], f"test accuracy in the last round {runs[-1].history.last('test_accuracy'):.2%}")

fl.plot(runs, against=["rounds", "bytes"], file="iid-and-shards.png")

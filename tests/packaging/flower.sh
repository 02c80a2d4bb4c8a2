#!/usr/bin/env bash
# Install fedloom[federation] beside Flower, and with protobuf 5, 6 and 7; run the federation's tests beside Flower.
. "$(dirname "$0")/environment.sh"
for major in 5 6 7; do
    environment "protobuf$major"
    install ".[federation]" "protobuf==$major.*"
    echo "protobuf $(python -c 'import google.protobuf as p; print(p.__version__)'): $(smoke federation)"
done
environment flower
install ".[federation]" flwr pytest hypothesis h5py
"$UV" pip check --quiet
echo "Flower $(python -c 'import flwr; print(flwr.__version__)') with protobuf $(python -c 'import google.protobuf as p; print(p.__version__)')"
python -c "import flwr.server, fedloom.federation.wire_pb2; from flwr.proto import transport_pb2, recorddict_pb2"
python -m pytest -p no:cacheprovider tests/federation/test_wire.py tests/federation/test_hosting.py tests/federation/test_federation.py

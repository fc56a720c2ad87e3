# Machines: network namespaces of this one, joined by a bridge, with links that can be cut. For
# root; load it behind ../bats/helpers.
#
#     setup() { make_machines tf 10.213.77 1 2 3; }     # $TAG; machine K is $SUBNET.K
#     teardown() { ...; remove_machines; }
#     on 2 COMMAND...;  ip link set "$TAG-2" down

make_machines() { # TAG SUBNET MACHINE...
    needs_root "make network namespaces"
    local k
    # Names of interfaces are short.
    TAG=$1$(($$ % 100000))
    SUBNET=$2
    shift 2
    ip netns add "$TAG-$1" || lacking "network namespaces"
    ip netns del "$TAG-$1"
    MACHINES=("$@")
    ip link add "$TAG-b" type bridge
    ip link set "$TAG-b" up
    for k in "${MACHINES[@]}"; do
        ip netns add "$TAG-$k"
        ip link add "$TAG-$k" type veth peer name eth0 netns "$TAG-$k"
        ip link set "$TAG-$k" master "$TAG-b" up
        ip -n "$TAG-$k" addr add "$SUBNET.$k/24" dev eth0
        ip -n "$TAG-$k" link set eth0 up
        ip -n "$TAG-$k" link set lo up
    done
}

# When nothing runs there any more. What was not made is no mistake.
remove_machines() {
    local k
    [ -n "${MACHINES-}" ] || return 0
    for k in "${MACHINES[@]}"; do
        ip link del "$TAG-$k" || true
        ip netns del "$TAG-$k" || true
    done
    ip link del "$TAG-b" || true
}

on() { # MACHINE COMMAND...
    nsenter "--net=/run/netns/$TAG-$1" "${@:2}"
}

start_on() { # MACHINE COMMAND...: in the background; its pid is $!
    background nsenter "--net=/run/netns/$TAG-$1" "${@:2}"
}

# A cluster of three nodes and a director on one machine, each in a network namespace of its own, and a client: for
# scripts that source this. They set `self` to their own name; root runs them. `finish` removes all of it at their end.
# shellcheck shell=bash

weir=$(realpath "${WEIR:-target/release/weir}")
if [ "$(id -u)" -ne 0 ]; then
    echo "$self: it makes network namespaces, attaches filters and restores sockets: run it as root" >&2
    exit 1
fi
for program in ip curl sysctl; do
    command -v $program >/dev/null || { echo "$self: $program is missing; make deps installs it" >&2; exit 1; }
done

tag=weir-demo-$$
work=$(mktemp -d)
names=(switch client front n1 n2 n3)
processes=()
finish() {
    code=$?
    trap - EXIT
    [ ${#processes[@]} -eq 0 ] || kill -9 "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    for name in "${names[@]}"; do ip netns del $tag-"$name" 2>/dev/null || true; done
    if [ $code -ne 0 ]; then tail -n 5 "$work"/*.log >&2 || true; fi
    rm -rf "$work"
    echo "Removed the network namespaces and $work."
    exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
at() { ip netns exec $tag-"$1" "${@:2}"; }
# run NAME LOG COMMAND...: in the background, ended with the demo.
run() {
    ip netns exec $tag-"$1" "${@:3}" >"$work/$2.log" 2>&1 &
    processes+=($!)
    # The shell says nothing when one is killed.
    disown
}
# until_it FILE WORDS: until a process has said this.
until_it() {
    for _ in $(seq 200); do
        if grep -q "$2" "$work/$1.log" 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "$self: $1 does not say '$2'" >&2
    exit 1
}

# The namespaces, and the list of members in `members`.
make_network() {
    for name in "${names[@]}"; do
        ip netns add $tag-"$name"
        ip -n $tag-"$name" link set lo up
    done
    ip -n $tag-switch link add br0 type bridge forward_delay 0
    ip -n $tag-switch link set br0 up
    number=0
    plug() { # NAME ADDRESS
        number=$((number + 1))
        ip link add e0 netns $tag-"$1" address 02:79:00:00:00:0$number type veth peer name p$number netns $tag-switch
        ip -n $tag-switch link set p$number master br0 up
        ip -n $tag-"$1" addr add "$2"/24 dev e0
        ip -n $tag-"$1" link set e0 up
    }
    service=10.79.0.80
    plug client 10.79.0.2
    plug front 10.79.0.1
    ip -n $tag-front addr add $service/32 dev e0
    members="service = [\"$service:80\"]
[director]
name = \"front\"
address = \"10.79.0.1:7700\""
    for node in 1 2 3; do
        plug n$node 10.79.0.1$node
        at n$node sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
        ip -n $tag-n$node addr add $service/32 dev lo
        members+="
[[node]]
name = \"n$node\"
number = $node
address = \"10.79.0.1$node:7700\"
mac = \"02:79:00:00:00:0$number\""
    done
}

# Keys and members of a cluster in $work, which serves $work/site; with `keeps_bytes` what is published as `www`, of which
# each node keeps so many bytes.
start_cluster() {
    "$weir" cluster init n1 --name n1 >init.log
    # In a namespace the port is free.
    at n1 "$weir" cluster admit n1 --listen 127.0.0.1:7799 --count 3 >admit.log 2>&1 &
    until_it admit 'can join'
    for node in 2 3; do "$weir" cluster token n1 | at n1 "$weir" cluster join n$node --name n$node --at 127.0.0.1:7799 >>join.log; done
    "$weir" cluster token n1 --director | at n1 "$weir" cluster join front --name front --at 127.0.0.1:7799 >>join.log
    wait $!
    [ -z "${keeps_bytes:-}" ] || members+="
[directory]
sqlite = \"$work/directory.sqlite\"
keeps_bytes = $keeps_bytes"
    for name in n1 n2 n3 front; do echo "$members" >$name/members.toml; done

    run front director "$weir" cluster director front --interface e0
    keepers=()
    for node in 1 2 3; do
        run n$node keeper$node "$weir" keeper --cluster n$node --interface e0 --socket "$work/keeper$node.sock"
        keepers[node]=${processes[-1]}
    done
    for node in 1 2 3; do until_it keeper$node 'ready at'; done
    servers=()
    for node in 1 2 3; do
        local root=site
        [ -z "${keeps_bytes:-}" ] || root=n$node/sites/www/current
        run n$node serve$node "$weir" serve "$root" --listen $service:80 --cluster n$node --keeper "$work/keeper$node.sock"
        servers[node]=${processes[-1]}
    done
    for node in 1 2 3; do until_it serve$node 'sessions move'; done
}

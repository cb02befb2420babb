# shellcheck shell=bash
# Starts servers for the other scripts; to be sourced. What is started ends with the script.

work=$(mktemp -d "${TMPDIR:-/tmp}/weir.XXXXXX")
chmod 755 "$work" # Apache reads it as a user of its own.
servers=()
on_server=() # what a script puts before a server's command, such as taskset

end_servers() {
    local pid
    for pid in "${servers[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap end_servers EXIT
trap 'exit 130' INT TERM

# A port without a listener, below those that Linux gives to clients.
free_port() {
    local port
    for _ in $(seq 100); do
        port=$((15000 + RANDOM % 17000))
        if ! (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; then
            echo $port
            return
        fi
    done
    echo 'none of 100 ports is free' >&2
    return 1
}

# wait_for PORT PID LOG
wait_for() {
    for _ in $(seq 200); do
        (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null && return
        kill -0 "$2" 2>/dev/null || break
        sleep 0.05
    done
    echo "the server did not start; its log:" >&2
    cat "$3" >&2
    return 1
}

# Runs a server in the background: start PORT COMMAND…
start() {
    local port=$1
    shift
    # In a session of its own: Apache ends by signalling its whole process group, which would
    # otherwise be ours.
    setsid "${on_server[@]}" "$@" >"$work/$port.log" 2>&1 &
    servers+=($!)
    wait_for "$port" $! "$work/$port.log"
}

# start_apache PORT ROOT: the configuration takes the rest from the environment.
start_apache() {
    [ -x /usr/sbin/apache2 ] || { echo 'apache2 is not installed: make deps' >&2; return 1; }
    local user=()
    # Apache refuses to handle requests as root.
    [ "$(id -u)" -ne 0 ] || user=(-C 'User #65534' -C 'Group #65534')
    WEIR_DEMO_PORT=$1 WEIR_DEMO_ROOT=$2 WEIR_DEMO_DIR=$work \
        start "$1" /usr/sbin/apache2 -DFOREGROUND "${user[@]}" -f "$PWD/demo/apache-prefork.conf"
}

# start_nginx PORT ROOT
start_nginx() {
    [ -x /usr/sbin/nginx ] || { echo 'nginx is not installed: make deps' >&2; return 1; }
    local user=
    [ "$(id -u)" -ne 0 ] || user='user root root;'
    sed -e "s|@USER@|$user|; s|@PORT@|$1|; s|@ROOT@|$2|; s|@DIR@|$work|g" demo/nginx.conf >"$work/nginx.conf"
    start "$1" /usr/sbin/nginx -p "$work" -c "$work/nginx.conf"
}

# copy_site TO: the sample site and files of 1 KB to 1 MB beside it.
copy_site() {
    mkdir -p "$1"
    cp -R demo/site/. "$1"
    mkdir -p "$1/files"
    local kb
    for kb in 1 4 16 64 256 1024; do
        head -c $((kb * 1024)) /dev/urandom >"$1/files/${kb}k.bin"
    done
    chmod -R a+rX "$1"
}

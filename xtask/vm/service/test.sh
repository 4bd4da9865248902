#!/bin/sh
# The tests of the package and its unit files, as a service of their own under a real systemd. Time is virtual.
. /functions.sh
cd /tmp || poweroff -f
export SYSTEMD_COLORS=0 SYSTEMD_PAGER= SYSTEMD_URLIFY=0
groups=/sys/fs/cgroup/system.slice/system-takt.slice/takt@clock.service

# property NAME [UNIT]: a property of the service.
property() { systemctl show --value -p "$1" "${2:-takt@clock}"; }
# is NAME WANTED FOUND
is() {
    if [ "$2" = "$3" ]; then ok "$1"; return; fi
    { cat clock.log; journalctl --no-pager -u takt@clock -n 24; systemctl status takt@clock; } > log 2>&1
    bad "$1" "\`$3\` instead of \`$2\`" log
}
# Waits up to a number of seconds until a command succeeds.
within() {
    tries=$(($1 * 10))
    shift
    for try in $(seq $tries); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.1
    done
    false
}
burns() { pidof takt > pids; grep -l burn $(sed 's,\([0-9]*\) *,/proc/\1/cmdline ,g' pids) 2>/dev/null | wc -l; }
runs() { find /sys/fs/cgroup -name 'takt-[0-9]*' -o -name 'supervisor-*'; }
# No group and no process of a run.
nothing_left() {
    left="$(runs | tr '\n' ' ')$(pidof takt)"
    is "$1: nothing is left" "" "$left"
}
# The summary of a run that has ended: jobs were released, and each met its deadline.
met_deadlines() {
    grep '^{' "$2" | tail -n 1 > run.json
    missed=$(totals run.json missed) met=$(totals run.json met)
    if [ "$missed" = 0 ] && [ "$met" -gt "$3" ]; then ok "$1: $met deadlines met"; else bad "$1" "$met met, $missed missed" "$2"; fi
}

echo "vm: $(systemctl --version | head -n 1), Linux $(uname -r)"

# The package is installed by the dpkg of Debian: a path, since the shell has a dpkg of its own. There is no ldconfig, which it misses.
dpkg=/usr/bin/dpkg
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
touch /var/lib/dpkg/status /var/lib/dpkg/available
export DEBIAN_FRONTEND=noninteractive
expect 0 "dpkg --install" $dpkg --force-bad-path --install /takt.deb
is "the installed package" "install ok installed" "$($dpkg-query --show --showformat '${Status}' takt)"
expect 0 "dpkg --verify" $dpkg --verify takt
expect 0 "the program" takt --version
is "the link" "demos-sched" "$(demos-sched -V | cut -d ' ' -f 1)"
for page in takt takt-run takt-demos demos-sched; do
    is "the manual page $page" 1 "$(gzip -dc /usr/share/man/man1/$page.1.gz | grep -c '^\.TH takt\|^\.so man1/takt-demos.1$')"
done
completed() { grep -q -e "$1" "$2" && echo "${2##*/}"; }
is "completions" "takt _takt takt.fish" "$(echo $(
    completed 'complete -F _takt' /usr/share/bash-completion/completions/takt
    completed '^#compdef takt' /usr/share/zsh/vendor-completions/_takt
    completed '-c takt .* -a "demos"' /usr/share/fish/vendor_completions.d/takt.fish
))"
for command in __probe __reference; do
    is "completions of $command" 0 "$(cat /usr/share/bash-completion/completions/takt | grep -c "$command")"
done

# Active only when the slow process has initialised, which takes a second.
systemctl start --no-block takt@clock
sleep 0.4
is "a service whose processes initialise" "activating no" "$(property ActiveState) $([ -e initialised ] && echo yes || echo no)"
within 20 systemctl is-active takt@clock
is "a service whose first frame has begun" "active yes" "$(property ActiveState) $([ -e initialised ] && echo yes || echo no)"
is "its status" "/etc/takt/clock.yaml: 2 processes scheduled on CPU 0" "$(property StatusText)"
main=$(property MainPID)

# All groups are below that of the service, and each process is in one of them.
is "groups outside of the service" "" "$(runs | grep -v "^$groups/")"
is "the groups of a run" 1 "$(runs | grep -c '/takt-[0-9]*-[0-9]*$')"
is "the controllers of the slice" "$(cat /sys/fs/cgroup/system.slice/cgroup.subtree_control)" "$(cat /sys/fs/cgroup/system.slice/system-takt.slice/cgroup.subtree_control)"
is "processes beside the groups" "" "$(cat $groups/cgroup.procs)"
is "its processes" 2 "$(burns)"
# A process cannot leave a cpuset, which is why Takt prefers it to affinities.
is "CPU sets" 0 "$(cat $groups/takt-*/p0/cpuset.cpus)"
is "NOTIFY_SOCKET of the processes" 0 "$(grep -c NOTIFY_SOCKET $(sed "s,\b$main\b,,; s,\([0-9][0-9]*\) *,/proc/\1/environ ,g" pids) | grep -vc ':0')"

# The watchdog of five seconds has its sign of life.
sleep 12
is "after twelve seconds" "active $main 0" "$(property ActiveState) $(property MainPID) $(property NRestarts)"

# Another version of the file takes over without another process; one with a fault changes nothing.
reloaded() { [ "$(property StatusText)" = "/etc/takt/clock.yaml is scheduled" ] && [ "$(property ActiveState)" = active ]; }
cp /etc/takt/clock.yaml first.yaml
sed -i 's/period: 100ms/period: 50ms/' /etc/takt/clock.yaml
systemctl reload takt@clock
within 10 reloaded
takt ctl status > status 2>&1
is "after a reload" "active $main 2" "$(property ActiveState) $(property MainPID) $(burns)"
if grep -q 'slow.* 50.00ms' status; then ok "the new period"; else bad "the new period" "it is not there" status; fi
sed -i 's/period: 50ms/period: soon/' /etc/takt/clock.yaml
systemctl reload takt@clock
sleep 1
is "after a reload with a fault" "active $main 2" "$(property ActiveState) $(property MainPID) $(burns)"
cp first.yaml /etc/takt/clock.yaml
systemctl stop takt@clock
is "a stopped service" "inactive success" "$(property ActiveState) $(property Result)"
met_deadlines "a stopped service" clock.json 600
nothing_left "a stopped service"

# SIGKILL: the service is restarted, and the old run has left nothing.
systemctl start takt@clock
first=$(property MainPID)
before=$(runs)
kill -KILL "$first"
# In one answer, since the state may change between two.
is_another() { case "$1" in "MainPID=$first ActiveState=active" | "MainPID=0 "*) false ;; *" ActiveState=active") true ;; *) false ;; esac; }
restarted() { is_another "$(systemctl show -p MainPID -p ActiveState takt@clock | tr '\n' ' ' | sed 's/ $//')"; }
within 20 restarted
is "after SIGKILL" "active 1 2" "$(property ActiveState) $(property NRestarts) $(burns)"
is "groups of the killed run" "" "$(for group in $before; do [ -e "$group" ] && echo "$group"; done)"
sleep 1
systemctl stop takt@clock
met_deadlines "the run after SIGKILL" clock.json 40
nothing_left "the run after SIGKILL"

# A stalled run gets no sign of life through, and is killed and started again.
systemctl start takt@clock
first=$(property MainPID)
kill -STOP "$first"
sleep 3
is "a run that has stalled for three seconds" "active $first" "$(property ActiveState) $(property MainPID)"
within 20 restarted
is "a run that has stalled for longer" "active" "$(property ActiveState)"
journalctl -u takt@clock > journal 2>&1
is "why" 1 "$(grep -c 'Watchdog timeout' journal)"
systemctl stop takt@clock
nothing_left "the run after a stall"

# A fault in the file is not retried.
sed 's/period: 20ms/period: soon/' /etc/takt/clock.yaml > /etc/takt/fault.yaml
systemctl start takt@fault
sleep 3
is "a file with a fault" "failed 2 0" "$(property ActiveState takt@fault) $(property ExecMainStatus takt@fault) $(property NRestarts takt@fault)"

# The user unit.
systemctl start pilot-manager
user() { su pilot -c "XDG_RUNTIME_DIR=/run/user/1000 SYSTEMD_COLORS=0 $*"; }
rm -f initialised
user systemctl --user start takt@clock > out 2>&1
is "a user's service" "active yes" "$(user systemctl --user show --value -p ActiveState takt@clock) $([ -e initialised ] && echo yes || echo no)"
is "groups outside of the user's" "" "$(runs | grep -v '^/sys/fs/cgroup/system.slice/pilot-manager.service/app.slice/app-takt.slice/takt@clock.service/')"
is "its groups" 1 "$(runs | grep -c '/takt-[0-9]*-[0-9]*$')"
sleep 2
first=$(user systemctl --user show --value -p MainPID takt@clock)
kill -KILL "$first"
user_restarted() { is_another "$(user systemctl --user show -p MainPID -p ActiveState takt@clock | tr '\n' ' ' | sed 's/ $//')"; }
within 20 user_restarted
is "a user's service after SIGKILL" 2 "$(burns)"
sleep 1
user systemctl --user stop takt@clock > out 2>&1
is "a user's stopped service" "inactive success" "$(user systemctl --user show --value -p ActiveState -p Result takt@clock | sort | tr '\n' ' ' | sed 's/ $//')"
met_deadlines "a user's stopped service" user-clock.json 40
nothing_left "a user's stopped service"
# `takt demos -s` in a session of the user: its groups are below the scope that systemd-run makes, with the names of DEmOS.
user systemctl --user start --no-block demos-session > out 2>&1
scheduled() { [ "$(grep -c job /tmp/demos.out)" -gt 3 ]; }
within 20 scheduled
top=$(find /sys/fs/cgroup -type d -name demos-named)
is "the groups of \`takt demos -s\`" 1 "$(echo "$top" | grep -c '/pilot-manager.service/.*\.scope/demos-named$')"
is "the processes of \`takt demos -s\`" yes "$([ "$(cat "$top"/*/proc0/cgroup.procs | wc -l)" -gt 0 ] && echo yes)"
ended() { [ "$(user systemctl --user show --value -p ActiveState demos-session)" = inactive ]; }
within 30 ended
is "the end of \`takt demos -s\`" "success" "$(user systemctl --user show --value -p Result demos-session)"
if grep -q 'Timed out, stopping all processes' /tmp/demos.log; then ok "its log"; else bad "its log" "no timeout in it" /tmp/demos.log; fi
nothing_left "\`takt demos -s\`"

# The package is removed while a schedule runs: that ends, and nothing of both is left.
systemctl start takt@clock
is "a service before the removal" "active 2" "$(property ActiveState) $(burns)"
expect 0 "dpkg --remove" $dpkg --force-bad-path --remove takt
is "a service after the removal" "inactive" "$(property ActiveState)"
nothing_left "the removal"
is "files after the removal" "" "$(find /usr /etc/systemd -name '*takt*' -o -name 'demos-sched*' | grep -v '/etc/systemd/.*/takt@.service.d\|takt-test' | tr '\n' ' ')"
echo "vm: end"
poweroff -f

# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion of sondectl for fish. Commands and options are those that --help shows.

# A line of several commands has their text for each.
function __sondectl_commands
    for line in (sondectl --help | string replace -rf '^  sondectl ([a-z|]+) (?:.*?\S)?  +(.*)$' '$1\t$2')
        set -l parts (string split \t $line)
        string split '|' $parts[1] | string replace -r '$' \t$parts[2]
    end
end

# What the service says, if it does so within a second.
function __sondectl_ask
    timeout 1 sondectl $argv 2>/dev/null </dev/null
end

function __sondectl_sessions
    __sondectl_ask list | string replace -rf '^ *([0-9]+)  (\S+) +(\S+) .{21}(.*)' '$1\t$3, $4'
end

function __sondectl_captures
    __sondectl_ask list --captures | string replace -rf '^.* (\S+\.syscap)$' '$1'
end

function __sondectl_events
    __sondectl_ask events
    or string split ' ' 'auto cycles instructions cpu-clock none'
end

function __sondectl_options
    set -l words (commandline -opc)
    sondectl $words[2] --help 2>/dev/null | string replace -rf '^  (?:-\w, )?(--[a-z-]+)(?:\[?=\S*)?  +(.*)$' '$1\t$2'
end

function __sondectl_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

# The value of one of the options named, in one of the commands named before --.
function __sondectl_value
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $argv)
    test (count $words) -gt 1; and contains -- $words[2] $argv[1..(math $at - 1)]
    and contains -- $words[-1] $argv[(math $at + 1)..-1]
end

complete -c sondectl -n 'test (count (commandline -opc)) -eq 1' -a '(__sondectl_commands)'
complete -c sondectl -n 'test (count (commandline -opc)) -eq 1' -l version -d 'print the version'
complete -c sondectl -s h -l help -d 'print the options'
complete -c sondectl -n 'test (count (commandline -opc)) -gt 1; and string match -q -- "-*" (commandline -ct)' -a '(__sondectl_options)'
complete -c sondectl -f -n '__sondectl_is start list status attach snapshot pause resume stop rm disarm events limits help'
complete -c sondectl -n '__sondectl_is top status attach snapshot pause resume stop' -a '(__sondectl_sessions)'
complete -c sondectl -n '__sondectl_is rm' -a '(__sondectl_captures)'
complete -c sondectl -n '__sondectl_is arm' -a '(systemctl list-units --all --plain --no-legend --type=service 2>/dev/null | string replace -r " .*" "")'
complete -c sondectl -n '__sondectl_is disarm' -a '(sondectl disarm 2>/dev/null | string replace -rf "^(--user )?(\\S+)\$" "\$2")'
complete -c sondectl -n '__sondectl_is help' -a '(__sondectl_commands)'
complete -c sondectl -x -n '__sondectl_value record top start -- --event' -a '(__sondectl_events)'
complete -c sondectl -x -n '__sondectl_value record top start -- --cgroup' -a '(__fish_complete_directories (string replace -r "^\$" /sys/fs/cgroup/ -- (commandline -ct)))'
complete -c sondectl -x -n '__sondectl_value record top start -- --unwind' -a 'dwarf libdwfl frame-pointer none'
complete -c sondectl -x -n '__sondectl_value record start -- --waits' -a 'off times'
complete -c sondectl -n '__sondectl_is record; and string match -q -- "--memory=*" (commandline -ct)' -a '--memory={off,all,sampled}'
complete -c sondectl -n '__sondectl_is record top; and string match -q -- "--trace=*" (commandline -ct)' -a '--trace={off,count,auto,exact}'
complete -c sondectl -x -n '__sondectl_value report heap diff -- --by' -a 'command unit container process thread none module function line'
complete -c sondectl -x -n '__sondectl_value flamegraph view export -- --by' -a 'command unit container process thread none'
complete -c sondectl -x -n '__sondectl_value report heap diff flamegraph view export -- --fold-recursion' -a 'direct all no'
complete -c sondectl -x -n '__sondectl_value diff -- --per' -a 'sample second'
complete -c sondectl -x -n '__sondectl_value top -- --by' -a 'function process thread module calls'
complete -c sondectl -x -n '__sondectl_value view export -- -p --pid' -a '(__fish_complete_pids)'
complete -c sondectl -x -n '__sondectl_value heap -- --unit' -a 'bytes count'
complete -c sondectl -r -n '__sondectl_value heap -- --suppressions' -a none
complete -c sondectl -x -n '__sondectl_value calls -- -s --sort' -a 'self total calls mean p99 max'
complete -c sondectl -x -n '__sondectl_value flamegraph view -- --unit' -a 'samples calls self'
complete -c sondectl -x -n '__sondectl_value export -- -f --format' -a 'folded speedscope firefox pprof perfetto chrome perf-script dot cpuprofile heapprofile heaptrack'
complete -c sondectl -x -n '__sondectl_value record top start report heap calls attach -- -p --pid' -a '(__fish_complete_pids)'
complete -c sondectl -n '__sondectl_is record top arm' -a '(__fish_complete_subcommand --fcs-skip=2)'

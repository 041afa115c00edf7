#!/bin/bash
# Installs the Debian packages that the tests use, as root; otherwise lists the missing ones, and fails. make deps.
set -euo pipefail
cd "$(dirname "$0")/.."
. testdata/need.sh
need perf linux-perf   # reads gperf's files; its output is the reference
need readelf binutils
need gcc gcc libc6-dev # for programs to record
need g++ g++           # for programs with many inlined functions
need llvm-symbolizer llvm # the reference for symbols of these programs
need clang clang
need dwz dwz
need nft nftables      # to drop packets by rules
need iptables iptables
need ebtables-legacy ebtables   # those of bridges
need arptables-legacy arptables # and of ARP
need ip iproute2
need tcpdump tcpdump   # the reference for packet filters
need /etc/services netbase
need xz xz-utils
need tshark tshark # reads the packets that gperf writes
need debuginfod debuginfod
need chromium chromium # shows the page of gperf view
need tmux tmux         # a terminal for the view of gperf report
need less less
need jq jq
need make make
need man man-db
need /usr/share/bash-completion/bash_completion bash-completion
install_needed

package main

import (
	"strings"
	"testing"
)

func TestNearFunctions(t *testing.T) {
	names := []string{"core::slice::sort::stable::driftsort_main", "main.(*Conn).Read", "udp_rcv", "__udp4_lib_rcv"}
	for _, row := range []struct{ name, want string }{{"driftsort_mian", names[0]}, {"Raed", names[1]},
		{"udp_rvc", names[2]}, {"__udp4_lib_rvc", names[3]}, {"xyzzy", ""}} {
		t.Run(row.name, func(t *testing.T) {
			if got := strings.Join(nearFunctions(row.name, names), " "); got != row.want {
				t.Errorf("%s: %q, want %q", row.name, got, row.want)
			}
		})
	}
}

package bpf

import "testing"

func TestParseRunTime(t *testing.T) {
	const info = "pos:\t0\nflags:\t02000002\nprog_type:\t5\nprog_jited:\t1\nprog_tag:\tb1\nprog_id:\t77\n" +
		"run_time_ns:\t123\nrun_cnt:\t4\nrecursion_misses:\t0\n"
	if id, runs, ns := parseRunTime(info); id != "77" || runs != 4 || ns != 123 {
		t.Errorf("got %s, %d runs, %d ns", id, runs, ns)
	}
	if _, runs, _ := parseRunTime("pos:\t0\nflags:\t02\nmap_id:\t9\n"); runs != 0 {
		t.Errorf("a map ran %d times", runs)
	}
}

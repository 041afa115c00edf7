package programs

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"testing"

	"gperf/internal/packet"
)

// listed is output of nft with objects of all kinds.
const listed = `table inet filter { # handle 1
	map verdicts { # handle 3
		type inet_service : verdict
		elements = { 22 : accept, 23 : jump user # handle 4,
			     24 : drop }
	}

	chain user { # handle 2
		tcp dport { 22, 80 } counter comment "web # handle 5" drop # handle 7
		jump deeper # handle 8
	}

	flowtable f { # handle 9
		hook ingress priority filter
		devices = { lo } # handle 10
	}

	chain input { # handle 11
		type filter hook input priority filter; policy drop;
		meta l4proto vmap { tcp : drop, udp : accept } # handle 12
	}
}
table ip6 filter { # handle 2
	chain input { # handle 1
		drop # handle 7
		drop without a number # handle x
	}
}
table broken
	chain x {
		drop # handle 9
`

func TestParseRules(t *testing.T) {
	want := map[ruleKey]string{
		{"inet", "filter", 7}:  `tcp dport { 22, 80 } counter comment "web # handle 5" drop`,
		{"inet", "filter", 8}:  "jump deeper",
		{"inet", "filter", 12}: "meta l4proto vmap { tcp : drop, udp : accept }",
		{"ip6", "filter", 7}:   "drop",
	}
	if got := parseRules([]byte(listed)); !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// TestParseRulesOfNFT reads the output of the installed nft.
func TestParseRulesOfNFT(t *testing.T) {
	const rules = `add table inet gperf; add chain inet gperf user
		add chain inet gperf input { type filter hook input priority 0; policy drop; }
		add rule inet gperf user tcp dport { 22, 80 } counter drop
		add rule inet gperf input udp dport 53 counter jump user
		add rule inet gperf user ip saddr 10.0.0.0/8 reject`
	for _, tool := range []string{"nft", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing", tool)
		}
	}
	out, err := exec.Command("unshare", "-n", "sh", "-ec", "nft '"+rules+"'; nft -a -s list ruleset").Output()
	if err != nil {
		t.Skipf("rules cannot be made here: %v", err)
	}
	texts := map[string]bool{}
	for key, text := range parseRules(out) {
		if key.family != "inet" || key.table != "gperf" || key.handle == 0 {
			t.Errorf("%+v: %s", key, text)
		}
		texts[text] = true
	}
	want := map[string]bool{"tcp dport { 22, 80 } counter drop": true, "udp dport 53 counter jump user": true,
		"ip saddr 10.0.0.0/8 reject with icmp port-unreachable": true}
	if !maps.Equal(texts, want) {
		t.Errorf("%v\nof\n%s", texts, out)
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(listed))
	f.Add([]byte("table ip t {\n\tchain c {\n\t\tdrop # handle 18446744073709551616\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for key, text := range parseRules(out) {
			if key.family == "" || key.table == "" {
				t.Errorf("%+v: %q", key, text)
			}
		}
	})
}

// TestRuleTexts checks that the text of a rule is from the rule's own generation, that nft runs once for each
// generation, and that rules that were never listed get no text unless they stayed.
func TestRuleTexts(t *testing.T) {
	generation, runs := uint32(0), 0
	rules := map[uint32]string{}
	r := &ruleTexts{netns: 5, generation: func() (uint32, error) { return generation, nil },
		list: func() ([]byte, error) {
			runs++
			return fmt.Appendf(nil, "table ip t {\n\tchain c {\n\t\tstays # handle 1\n\t\t%s # handle 2\n\t}\n}\n",
				rules[generation]), nil
		}, failed: func(err error) { t.Error(err) }}
	rules[0], rules[4] = "first", "third"
	r.update()
	text := func(netns, g uint32, handle uint64) string {
		return r.text(netns, &packet.Rule{By: packet.ByNFT, Family: "ip", Table: "t", Chain: "c", Handle: handle,
			Generation: g})
	}
	check := func(got, want string, wantRuns int) {
		t.Helper()
		if got != want || runs != wantRuns {
			t.Errorf("%q after nft ran %d times, want %q, %d", got, runs, want, wantRuns)
		}
	}
	check(text(5, 0, 2), "first", 1)
	check(text(6, 0, 2), "", 1)
	check(text(5, 0, 3), "", 1)
	generation = 4
	check(text(5, 0, 2), "first", 1)
	check(text(5, 2, 2), "", 2) // gone before it was listed
	check(text(5, 2, 1), "stays", 2)
	check(text(5, 3, 1), "stays", 2)
	check(text(5, 4, 2), "third", 2)
	generation = 5 // the rules change, and it never ends
	check(text(5, 5, 1), "", 5)
	check(text(5, 5, 1), "", 5)
	for generation = 6; generation < 100; generation += 2 {
		text(5, generation, 1)
	}
	if n := len(r.known); n != maxGenerations {
		t.Errorf("%d generations are kept", n)
	}
	r.list = func() ([]byte, error) { return nil, errors.New("nft is broken") }
	failures := 0
	r.failed = func(error) { failures++ }
	for range 3 {
		if got := text(5, generation, 1); got != "" || failures != 1 {
			t.Errorf("%q, %d failures", got, failures)
		}
	}
}

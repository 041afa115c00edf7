package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gperf/internal/packet"
)

// ruleKey identifies a rule of nf_tables.
type ruleKey struct {
	family, table string
	handle        uint64
}

// ruleTexts holds the texts of the rules in the recorder's own network namespace, as nft prints them.
type ruleTexts struct {
	netns      uint32 // inode number of the recorder's namespace; 0: there are no texts
	known      []listedRules
	tried      uint32                 // the generation at the last attempt to list the rules
	generation func() (uint32, error) // the current one
	list       func() ([]byte, error) // prints the rules
	failed     func(error)            // is called once if the rules cannot be listed
}

// listedRules are the rules of a generation.
type listedRules struct {
	generation uint32
	texts      map[ruleKey]string
}

// maxGenerations limits the generations of rules that are kept for samples that wait in the rings.
const maxGenerations = 16

// newRuleTexts lists the rules that exist.
func newRuleTexts(generation func() (uint32, error), failed func(error)) *ruleTexts {
	r := &ruleTexts{generation: generation, list: listRules, failed: failed}
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &st); err != nil {
		failed(err)
		return r
	}
	r.netns = uint32(st.Ino)
	r.update()
	return r
}

// text returns the text of a rule in a namespace, "" if it is unknown.
func (r *ruleTexts) text(netns uint32, rule *packet.Rule) string {
	if r == nil || netns != r.netns || rule.By != packet.ByNFT || rule.Handle == 0 {
		return ""
	}
	key := ruleKey{rule.Family, rule.Table, rule.Handle}
	at, found := r.find(rule.Generation)
	if !found && at == len(r.known) {
		if now, err := r.generation(); err == nil && now != r.tried {
			r.update()
		}
		at, found = r.find(rule.Generation)
	}
	switch {
	case found:
		return r.known[at].texts[key]
	case at == 0 || at == len(r.known):
		return ""
	}
	// The rules changed before they were listed: this rule may have stayed.
	before, after := r.known[at-1].texts[key], r.known[at].texts[key]
	if before != after {
		return ""
	}
	return before
}

// find returns the index of a generation, or of the first later one.
func (r *ruleTexts) find(generation uint32) (int, bool) {
	return slices.BinarySearchFunc(r.known, generation, func(l listedRules, g uint32) int {
		return cmp.Compare(l.generation, g)
	})
}

// update lists the rules of the current generation.
func (r *ruleTexts) update() {
	for range 3 { // they may change meanwhile
		before, err := r.generation()
		var out []byte
		if r.tried = before; err == nil {
			out, err = r.list()
		}
		after, err2 := r.generation()
		if err = errors.Join(err, err2); err != nil {
			r.netns = 0
			r.failed(fmt.Errorf("the texts of rules: nft -a -s list ruleset: %w", err))
			return
		}
		if before == after && before%2 == 0 {
			if at, known := r.find(before); !known {
				r.known = slices.Insert(r.known, at, listedRules{before, parseRules(out)})
			}
			break
		}
	}
	r.known = r.known[max(0, len(r.known)-maxGenerations):]
}

// listTimeout limits the time that nft takes, during which samples wait in the rings.
const listTimeout = 5 * time.Second

func listRules() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	return exec.CommandContext(ctx, "nft", "-a", "-s", "list", "ruleset").Output()
}

// parseRules reads the output of `nft -a -s list ruleset`: tables at the start of a line, parts of a table after
// one tab, rules after two tabs, each with a handle at the end.
func parseRules(out []byte) map[ruleKey]string {
	rules := map[ruleKey]string{}
	var key ruleKey
	inChain := false
	for line := range bytes.Lines(out) {
		text := strings.TrimRight(string(line), "\n")
		switch {
		case strings.HasPrefix(text, "table "):
			f := strings.Fields(text)
			if inChain = false; len(f) < 3 {
				key = ruleKey{}
				continue
			}
			key.family, key.table = f[1], f[2]
		case strings.HasPrefix(text, "\t\t"):
			rule, handle, ok := cutHandle(strings.TrimSpace(text))
			if inChain && ok && key.table != "" {
				key.handle = handle
				rules[key] = rule
			}
		case strings.HasPrefix(text, "\t"):
			inChain = strings.HasPrefix(text, "\tchain ")
		}
	}
	return rules
}

// cutHandle splits the handle off a line: "drop # handle 7".
func cutHandle(line string) (text string, handle uint64, ok bool) {
	const mark = "# handle "
	i := strings.LastIndex(line, mark)
	if i < 0 {
		return line, 0, false
	}
	handle, err := strconv.ParseUint(line[i+len(mark):], 10, 64)
	return strings.TrimSpace(line[:i]), handle, err == nil
}

package event

import (
	"strings"
	"testing"
)

// testFields are fields that filters compare.
var testFields = []Field{{Name: "common_pid"}, {Name: "prev_comm", Text: true}, {Name: "prev_pid"}, {Name: "location"},
	{Name: "reason", Values: func() []Value { return []Value{{"NOT_SPECIFIED", 2}, {"NO_SOCKET", 3}, {"MINUS", -1}} }},
	{Name: "cause", Of: "reason", Partial: true, Values: func() []Value { return []Value{{"EXPIRED", 9}} }}}

// show formats an expression with all its parentheses.
func (f *Filter) show() string {
	switch f.Op {
	case "&&", "||":
		return "(" + f.Left.show() + " " + f.Op + " " + f.Right.show() + ")"
	case "!":
		return "!" + f.Left.show()
	}
	return f.Field + f.Special + f.Op + f.Text
}

func TestParseFilter(t *testing.T) {
	for _, c := range []struct{ filter, numeric, want string }{
		{"prev_pid == 1", "", "prev_pid==1"},
		{`!(prev_pid==0x1 && prev_comm ~ "a b*")`, "", "!(prev_pid==0x1 && prev_comm~a b*)"},
		{"prev_pid == 1 || prev_pid == 2 && common_pid != -3", "", "(prev_pid==1 || (prev_pid==2 && common_pid!=-3))"},
		{"(prev_pid == 1 || prev_pid == 2) && !common_pid != 3", "",
			"((prev_pid==1 || prev_pid==2) && !common_pid!=3)"},
		{"prev_comm == bash || (common_pid != -3)", "", "(prev_comm==bash || common_pid!=-3)"},
		{"location.function == kfree", "", "location.function==kfree"},
		{"cpu & CPUS{0-3} && COMM != 'x'", "", "(cpuCPUS{0-3}&CPUS{0-3} && COMM!=x)"},
		{"reason == NO_SOCKET", "reason == 3", "reason==NO_SOCKET"},
		{`(reason!=NO_SOCKET || prev_pid==7)&&reason != "MINUS" && prev_comm == "NO_SOCKET"`,
			`(reason!=3 || prev_pid==7)&&reason != -1 && prev_comm == "NO_SOCKET"`,
			"(((reason!=NO_SOCKET || prev_pid==7) && reason!=MINUS) && prev_comm==NO_SOCKET)"},
		{"prev_pid > 10ms && prev_pid < 0x10 || prev_pid <= -1.5us",
			"prev_pid > 10000000 && prev_pid < 0x10 || prev_pid <= -1500",
			"((prev_pid>10ms && prev_pid<0x10) || prev_pid<=-1.5us)"},
		{"cause == EXPIRED && prev_pid == 1", "reason == 9 && prev_pid == 1", "(reason==EXPIRED && prev_pid==1)"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			f, numeric, err := ParseFilter(c.filter, testFields)
			if err != nil {
				t.Errorf("%q: %v", c.filter, err)
				return
			}
			if c.numeric == "" {
				c.numeric = c.filter
			}
			if numeric != c.numeric || f.show() != c.want {
				t.Errorf("%q: %s, for the kernel %q; want %s, %q", c.filter, f.show(), numeric, c.want, c.numeric)
			}
		})
	}
	sized := []Field{{Name: "s", Length: "s__len"}, {Name: "s__len"}}
	if _, _, err := ParseFilter("s == hello", sized); err == nil ||
		!strings.Contains(err.Error(), "it can compare s__len") {
		t.Errorf("a text with a length: %v", err)
	}
	f, _, err := ParseFilter("reason == MINUS && prev_pid <= 0x10", testFields)
	if err != nil || int64(f.Left.Number) != -1 || f.Right.Number != 16 {
		t.Errorf("numbers: %+v, %+v, %v", f.Left, f.Right, err)
	}
}

func TestParseFilterErrors(t *testing.T) {
	for _, c := range []struct {
		filter string
		want   string
	}{
		{"prev_pidd == 1", "there is no field prev_pidd: did you mean prev_pid"},
		{"prev_pid = 1", "comparison is missing after prev_pid"},
		{"prev_pid == foo", "prev_pid is a number, but foo is not"},
		{"prev_pid ~ 3", "~ cannot compare"},
		{"prev_comm > 3", "> cannot compare"},
		{"prev_pid == ", "a value is missing"},
		{"prev_pid == 1 &&", "missing at the end"},
		{"prev_pid == 1 prev_pid == 2", `&& or || is missing before "prev_pid == 2"`},
		{"(prev_pid == 1 prev_pid == 2", `&& or || is missing before "prev_pid == 2"`},
		{"(prev_pid == 1", "a ( has no )"},
		{"prev_pid == 1)", "a ) has no ("},
		{"", "missing at the end"},
		{"&& prev_pid == 1", "missing before"},
		{"reason == NO_SOCKT", "reason has no value NO_SOCKT: did you mean NO_SOCKET?"},
		{"reason == XXXXXXXXXX", "Its values are: NOT_SPECIFIED NO_SOCKET"},
		{"prev_pid == 123456789012345678901", "not a number of 64 bits"},
		{"cause != EXPIRED", "use == or reason"},
		{"cause < EXPIRED", "cause is text, which < cannot compare"},
		{"cause == 9", "cause has no value 9"},
		{"prev_pid == 3 && daddr == 10.0.0.1", "daddr is known only when a recording is read"},
		{"daddr == 10.0.0.1", "when recording, --packet 'host ADDRESS and port N' selects by it"},
		{"cgroup == /a", "-G PATH selects"},
		{"symbol == f", "gperf report and script have --filter, too\n"},
		{"prev_pid == 3 && cause == FULL", "\n  prev_pid == 3 && cause == FULL\n                            ^^^^\n"},
		{strings.Repeat("(", 1000), "nested parentheses"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			if _, _, err := ParseFilter(c.filter, testFields); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.filter, err, c.want)
			}
		})
	}
}

// FuzzParseFilter checks that the kernel's form of each filter can be parsed as well, to the
// same expression.
func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{"prev_pid == 1", "!(a && b ~ \"x\")", "cpu & CPUS{0-3}", "(((", "a.b == 'c",
		"reason == NO_SOCKET"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, numeric, err := ParseFilter(s, testFields)
		if err != nil {
			return
		}
		if _, again, err := ParseFilter(numeric, testFields); err != nil || again != numeric {
			t.Errorf("%q became %q, and that %q, %v", s, numeric, again, err)
		}
	})
}

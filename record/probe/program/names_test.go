package program

import "testing"

func TestWithoutParameters(t *testing.T) {
	for s, want := range map[string]string{
		"f":                                  "f",
		"ns::f(int (*)(char), long)":         "ns::f",
		"std::vector<int> ns::f<int>(int)":   "ns::f<int>",
		"ns::A::operator()(int) const":       "ns::A::operator()",
		"ns::A::operator new(unsigned long)": "ns::A::operator new",
		"(anonymous namespace)::f(int)":      "(anonymous namespace)::f",
		"main.(*T).M":                        "main.(*T).M",
		"r::inner::work":                     "r::inner::work",
	} {
		t.Run(s, func(t *testing.T) {
			if got := WithoutParameters(s); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"str*", "strlen", true},
		{"str*", "_strlen", false},
		{"str?en", "strlen", true},
		{"str[kl]en", "strlen", true},
		{"str[a-k]en", "strlen", false},
		{"main.(*T).*", "main.(*T).M", true},
		{"main.(*T).*", "main.(*UT).M", false},
		{"main.*", "mainxy", false},
		{"main.Map[...]*", "main.Map[...]", true},
	} {
		t.Run(c.glob+" "+c.name, func(t *testing.T) {
			re, err := globExpr(c.glob)
			if err != nil || re.MatchString(c.name) != c.want {
				t.Errorf("%s and %s: %v, %v", c.glob, c.name, !c.want, err)
			}
		})
	}
}

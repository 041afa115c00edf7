package probe

import (
	"reflect"
	"testing"
)

func TestParseUser(t *testing.T) {
	for text, want := range map[string]spec{
		"uprobe:./hello:hello":                 {kind: Uprobe, file: "./hello", name: "hello"},
		"uretprobe:libc:malloc":                {kind: Uretprobe, file: "libc", name: "malloc"},
		"uprobe:./hello:hello+0x12 n=%di:s32":  {kind: Uprobe, file: "./hello", name: "hello", off: 0x12, args: []string{"n=%di:s32"}},
		"uprobe:./hello:0x1139":                {kind: Uprobe, file: "./hello", name: "0x1139"},
		"uprobe:./hello:hello.c:12":            {kind: Uprobe, file: "./hello", name: "hello.c", line: 12},
		"uprobe:./hello:src/hello.c:12 n":      {kind: Uprobe, file: "./hello", name: "src/hello.c", line: 12, args: []string{"n"}},
		"uprobe:/a/b:ns::Class::method":        {kind: Uprobe, file: "/a/b", name: "ns::Class::method"},
		"uprobe:/a/b:ns::f(int, char)":         {kind: Uprobe, file: "/a/b", name: "ns::f(int, char)"},
		"uprobe:/a/b:ns::operator+(ns::A)":     {kind: Uprobe, file: "/a/b", name: "ns::operator+(ns::A)"},
		`uprobe:/a/b:"main.(*T).M" x=%ax`:      {kind: Uprobe, file: "/a/b", name: "main.(*T).M", literal: true, args: []string{"x=%ax"}},
		"uprobe:/a/b:g.com/x/y.(*T).M+4":       {kind: Uprobe, file: "/a/b", name: "g.com/x/y.(*T).M", off: 4},
		`uprobe:/a/b:"g.com/x/y.(*T).M"+4`:     {kind: Uprobe, file: "/a/b", name: "g.com/x/y.(*T).M", literal: true, off: 4},
		`uprobe:"/a b:c":f`:                    {kind: Uprobe, file: "/a b:c", name: "f"},
		"uprobe:/a:main.Map[go.shape.int,a.b]": {kind: Uprobe, file: "/a", name: "main.Map[go.shape.int,a.b]"},
		"usdt:/a/b:shop:sale":                  {kind: Uprobe, usdt: true, file: "/a/b", provider: "shop", name: "sale"},
		"usdt:libc:setjmp":                     {kind: Uprobe, usdt: true, file: "libc", name: "setjmp"},
	} {
		t.Run(text, func(t *testing.T) {
			s, err := parse(text)
			want.text = text
			if len(want.args) == 0 {
				want.args = []string{}
			}
			if err != nil || !reflect.DeepEqual(*s, want) {
				t.Errorf("%+v, %v\nwant %+v", s, err, want)
			}
		})
	}
	for _, text := range []string{"uprobe:", "uprobe:hello", "uprobe::f", "uprobe:./a:", "uprobe:./a:f+x",
		"uprobe:./a:f+", "uprobe:./a:a.c:0", "usdt:a", "usdt:./a:b:"} {
		t.Run(text, func(t *testing.T) {
			if s, err := parse(text); err == nil {
				t.Errorf("%q is taken for %+v", text, s)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"uprobe:a:b+1 c=d", `usdt:"a":b:c`, "uprobe:a:b.c:1", "uprobe:a:(<[x", `uprobe:a:"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parse(text); err == nil && s.name == "" {
			t.Errorf("%q has no name", text)
		}
	})
}

func TestEventNames(t *testing.T) {
	for function, want := range map[string]string{
		"main.main":                    "main_main",
		"main.(*T).Method":             "main_T_Method", // as in perf 7
		"main.main.func1":              "main_main_func1",
		"main.Map[...]":                "main_Map",
		"ns::f(int)":                   "ns_f",
		"int ns::t<int>(int)":          "ns_t_int",
		"ns::Class::method(int) const": "ns_Class_method",
		"github.com/cilium/cilium/pkg/endpoint.(*Endpoint).regenerate": "endpoint_Endpoint_regenerate",
		"main.Map[go.shape.int,example.org/a/b.T]":                     "main_Map_go_shape_int_example_org_a_b_T",
	} {
		t.Run(function, func(t *testing.T) {
			if got := sourceEventName(function); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	for function, want := range map[string]string{"malloc": "malloc__return",
		"f.isra.0": "f__return", "9p": "_9p__return",
		"a234567890123456789012345678901234567890123456789012345678901234": "a23456789012345678901234567890123456789012345678" + "__return"} {
		t.Run(function, func(t *testing.T) {
			if got := eventName(function, Kretprobe); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

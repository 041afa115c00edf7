package args

import "testing"

// sk and sock are the only socket among the parameters, whatever the parameter's name is.
func TestSocket(t *testing.T) {
	sock := &Type{Kind: Pointer, Size: 8, elem: func() *Type { return &Type{Name: "struct sock", Kind: Struct} }}
	number := &Type{Name: "int", Kind: Int, Size: 4}
	one := Scope{Vars: []Var{{Name: "skb", Type: number, Param: true}, {Name: "rx_sk", Type: sock, Param: true}}}
	for name, want := range map[string]string{"sk": "rx_sk", "sock": "rx_sk", "sck": ""} {
		got := ""
		if v := one.Socket(name); v != nil {
			got = v.Name
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	two := Scope{Vars: append(one.Vars, Var{Name: "other", Type: sock, Param: true})}
	if v := two.Socket("sk"); v != nil {
		t.Errorf("sk is %s, of two", v.Name)
	}
}

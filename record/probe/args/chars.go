package args

// Chars locates the characters of a string, or of a slice of bytes.
type Chars struct {
	Start  []string // members that lead to the address of the first
	Length []string // members that lead to the number of bytes; nil: a NUL ends them
	Text   bool     // they are text, not arbitrary bytes
}

// layouts are the layouts of strings in languages that do not end them with a NUL, or that use a special type for
// them.
var layouts = []Chars{
	{Start: []string{"str"}, Length: []string{"len"}, Text: true},               // Go: string
	{Start: []string{"array"}, Length: []string{"len"}},                         // Go: []byte
	{Start: []string{"data_ptr"}, Length: []string{"length"}},                   // Rust: &str, &[u8]
	{Start: []string{"vec", "buf"}, Length: []string{"vec", "len"}, Text: true}, // Rust: String
	{Start: []string{"buf"}, Length: []string{"len"}},                           // Rust: Vec<u8>
	{Start: []string{"_M_dataplus", "_M_p"}, Text: true},                        // libstdc++: std::string
	{Start: []string{"_M_str"}, Length: []string{"_M_len"}, Text: true},         // libstdc++: std::string_view
	{Start: []string{"__data_"}, Length: []string{"__size_"}, Text: true},       // libc++: std::string_view
}

// Chars returns the location of a struct's characters, if it is a string or a slice of bytes.
func (t *Type) Chars() (Chars, bool) {
	if t.Kind != Struct {
		return Chars{}, false
	}
	for _, c := range layouts {
		start, ok := t.follow(c.Start)
		if !ok {
			continue
		}
		if c.Start, ok = start.toPointer(c.Start, maxNesting); !ok {
			continue
		}
		start, _ = t.follow(c.Start)
		if start.Elem().Size != 1 {
			continue
		}
		if n, ok := t.follow(c.Length); !ok || c.Length != nil && n.Kind != Int {
			continue
		}
		c.Text = c.Text || t.Name == "struct &str"
		return c, true
	}
	return Chars{}, false
}

// follow returns the type that members lead to.
func (t *Type) follow(members []string) (*Type, bool) {
	for _, name := range members {
		f, ok := t.Field(name)
		if !ok {
			return nil, false
		}
		t = f.Type
	}
	return t, true
}

// toPointer extends a path of members through structs to the first pointer in them: Rust
// wraps it in NonNull and Unique.
func (t *Type) toPointer(path []string, depth int) ([]string, bool) {
	if t.Kind == Pointer {
		return path, true
	}
	if t.Kind != Struct || t.fields == nil || depth == 0 {
		return nil, false
	}
	for _, f := range t.fields() {
		if f.Name == "" {
			continue
		}
		if p, ok := f.Type.toPointer(append(path[:len(path):len(path)], f.Name), depth-1); ok {
			return p, true
		}
	}
	return nil, false
}

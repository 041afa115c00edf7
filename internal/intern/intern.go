// Package intern answers "which number has this value in a list without equal ones?"
package intern

// Index returns the index of v in list, and adds it if missing. index has those of the list's values.
func Index[T comparable](index map[T]int32, list *[]T, v T) int32 {
	i, ok := index[v]
	if !ok {
		i = int32(len(*list))
		index[v] = i
		*list = append(*list, v)
	}
	return i
}

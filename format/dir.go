package format

// Files of a recording that is a directory.
const (
	// DirData has the header and the first records. data.0, data.1 and so on have
	// the records of one thread each, without a header.
	DirData = "data"
	// DirKcore is a directory with copies of the recorded machine's /proc/kallsyms,
	// /proc/modules and /proc/kcore.
	DirKcore = "kcore_dir"
)

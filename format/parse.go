package format

import "encoding/binary"

// ParseRecord decodes a record of the running kernel that is no sample. st is
// the sample_type of the event that wrote it, whose sample id closes the record
// if the event asks for FlagSampleIDAll; else 0.
func ParseRecord(r Raw, st SampleType) (Record, error) {
	return parseRecord(r, binary.LittleEndian, st)
}

package inspect

import "gperf/format"

// Facts returns what a recording's header says of the machine, one line per fact, such as "hostname: server".
func Facts(f *format.File) (lines []string) {
	for _, s := range [...]struct {
		name    string
		feature format.Feature
	}{{"hostname", format.FeatureHostname}, {"os release", format.FeatureOSRelease}, {"arch", format.FeatureArch},
		{"cpu", format.FeatureCPUDesc}} {
		if text := f.String(s.feature); text != "" {
			lines = append(lines, s.name+": "+text)
		}
	}
	return lines
}

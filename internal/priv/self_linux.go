package priv

// Self is a name by which this very program can be executed, even when its
// file was replaced meanwhile.
func Self() (string, error) { return "/proc/self/exe", nil }

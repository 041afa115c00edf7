//go:build !linux

package main

// recorders returns the makers of the commands that need Linux: they say so.
func recorders() []maker { return linuxOnly() }

// recordingAdvice is empty, because these commands fail with one error.
var recordingAdvice []advice

// recordValues is empty: the commands have no flags here.
var recordValues map[string]values

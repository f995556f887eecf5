// Package version says which leaseguard this is.
package version

// Version is the release that the programs report.
const Version = "0.1.0-dev"

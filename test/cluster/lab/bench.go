package main

import "github.com/spf13/cobra"

func benchCommand() *cobra.Command {
	return &cobra.Command{Use: "bench", Short: "Measure gridmesh and its opponents side by side", Args: cobra.NoArgs}
}

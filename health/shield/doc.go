// Package shield decides in the cloud what is to become of a node that the cloud does not
// hear: whether its pods and endpoints stay, or go as in stock Kubernetes.
//
// It is pure: what is known of a node and of its unit, and the time, go in; an action and
// its reason come out. Times are those at which the controller saw something itself, and for
// what it finds as it begins those at which the API server took it: clocks of nodes may be an
// hour off, so what they write into Leases and annotations tells nothing but that it changed. A
// renewal that is told late counts from when the API server took it, too.
//
//	decide.go  what is to become of a node
//	past.go    how what is known of a unit and of a node changes
//	budget.go  how many nodes may be given up before Kubernetes itself does it, how many may
//	           get nothing new, and whether pods go from units without uplink
//
// # The rules
//
//	unit's Lease              vote on the node      node                  action
//	renewed                   well                  lost                  Shield
//	renewed                   well                  says it has no uplink Shield, before it is lost
//	renewed                   dead, proven          lost                  Evict
//	renewed                   dead, proven          heard                 Suspect: its peers do not reach it
//	renewed                   dead, not proven      any                   Nothing, where nothing else stands
//	renewed                   well, an old vote     lost                  Hold for a while
//	renewed                   none, or a very old   lost                  Nothing
//	renewed again             none since            lost, and was kept    Hold for a while
//	renewed again             any                   heard, and was kept   Hold until it is missed or heard
//	silent                    any                   any                   Hold: the unit has no uplink
//	silent                    any                   lost for an hour      HoldBound: of its pods those stay that
//	                                                                      are bound to the unit
//	silent                    any                   lost before, and not
//	                                                kept, given up, or
//	                                                released meanwhile    Nothing: it stays as it was
//	silent for long, though
//	the cloud hears the unit  well                  lost, and was kept    Hold for a while
//	                          any                   any                   Nothing: nobody votes any more
//	gone, a moment ago        any                   heard, or kept        Hold: it may be there again
//	never seen, or gone       any                   any                   Nothing: nobody votes there
//
// Dead is proven where the whole unit was asked, more than half of the nodes that the cloud
// knows there said so, by who holds the unit's Lease or did until a moment ago, and that was seen to
// be written: what a controller finds when it begins may be of any age, and takes no pods. It keeps
// them where the node is on the list that it finds, or the API server says when it took the verdict.
//
// That a node is well counts by who speaks for the unit, too, and from more who see it than do not. What
// does not count, and none, is passed over: the last vote that did stands, as old as it is, and what it
// rests on; one that was written over before it was known who led counts once that is. So nobody who
// does not speak for a unit ends a shield, or begins one, or hides what who speaks says.
//
// Who begins to look, or was not told how nodes are, counts a unit as one without uplink before it
// counts as one in which nobody votes: whom the cloud seems to hear may be long gone.
//
// A unit of one node has nobody to vote, and holds its Lease as others do; lost with its
// Lease it is a unit without uplink.
package shield

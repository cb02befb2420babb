/* Sends each packet out at the interface by which it came, and does nothing else: what the cost of `direct` is compared
 * with. */
#include "packet.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tc")
int plain(struct __sk_buff *skb)
{
	return bpf_redirect(skb->ifindex, 0);
}

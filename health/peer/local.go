package peer

import (
	"encoding/json"
	"net/http"
)

// local tells who is on this node what it found of others: SuperEdge's
// application-grid-wrapper asks for it. The generation before v0.8 has it by name.
func (p *Peer) local(w http.ResponseWriter, c *call) {
	if !c.onNode() && p.cfg.Legacy == None {
		p.deny(w, c, unsigned)
		return
	}
	now := p.now()
	out := map[string]any{}
	for name, well := range p.node.Local() {
		if p.cfg.Legacy != G2 {
			out[name] = detailG1{Normal: well, Time: now.UTC()}
		} else if a := c.u.addr(name); a.IsValid() {
			out[a.String()] = detailG2{Normal: well, Time: now.Unix()}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

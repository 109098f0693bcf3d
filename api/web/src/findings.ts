/** Finding is what the doctor found with one check. */
export interface Finding {
  check: string;
  subject: string;
  severity: string;
  message: string;
  advice: string;
}

/** FindingGroup is what one check found with one severity, on however many nodes. */
export interface FindingGroup {
  check: string;
  severity: string;
  nodes: string[];
  findings: string[]; // each once
}

const worst = ["fail", "warn", "unknown", "ok"];
const rank = (severity: string) => (worst.includes(severity) ? worst.indexOf(severity) : worst.length);

/** groupFindings puts what many nodes report of one check into one row, the worst first. */
export function groupFindings(nodes: readonly { name: string; audit_findings?: Finding[] | undefined }[]): FindingGroup[] {
  const groups = new Map<string, FindingGroup>();
  for (const node of nodes) {
    for (const f of node.audit_findings ?? []) {
      const key = `${f.check} ${f.severity}`;
      const group = groups.get(key) ?? { check: f.check, severity: f.severity, nodes: [], findings: [] };
      groups.set(key, group);
      const text = `${f.subject}: ${f.message} ${f.advice}`.trim();
      if (!group.nodes.includes(node.name)) group.nodes.push(node.name);
      if (!group.findings.includes(text)) group.findings.push(text);
    }
  }
  return [...groups.values()].sort((a, b) => rank(a.severity) - rank(b.severity) || a.check.localeCompare(b.check));
}

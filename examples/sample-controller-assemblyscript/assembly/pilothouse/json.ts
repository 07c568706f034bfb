// JSON as text. The standard library of AssemblyScript has no JSON.

/** Returns a string as JSON, with quotes and escapes. */
export function quote(text: string): string {
  let json = '"';
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code == 0x22 || code == 0x5c) json += "\\" + text.charAt(i);
    else if (code < 0x20) json += "\\u00" + (code < 0x10 ? "0" : "") + code.toString(16);
    else json += text.charAt(i);
  }
  return json + '"';
}

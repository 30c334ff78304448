// The words of a simulated memory: one port to read, one to write any of the values in a word. A word
// that is read and written in the same cycle is read as it was before.
module joinery_words #(
  parameter LINES = 2,
  parameter ADDRESS = 1,
  parameter WORD = 1,
  parameter WIDTH = 1
) (
  input clk,
  input read,
  input [ADDRESS-1:0] read_line,
  output reg [WORD*WIDTH-1:0] read_data,
  input [WORD-1:0] write,
  input [ADDRESS-1:0] write_line,
  input [WORD*WIDTH-1:0] write_data
);
  reg [WORD*WIDTH-1:0] words [0:LINES-1];
  integer value;

  always @(posedge clk) begin
    if (read) read_data <= words[read_line];
    if (&write) words[write_line] <= write_data;
    else if (|write)
      for (value = 0; value < WORD; value = value + 1)
        if (write[value])
          words[write_line][value*WIDTH +: WIDTH] <= write_data[value*WIDTH +: WIDTH];
  end
endmodule
